"""The labels by which everything of a run is found again, from any process on any machine."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from harness.model import (
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_DOMAIN,
    LABEL_EXPIRES,
    LABEL_MANAGED,
    LABEL_RUN,
    MANAGED_BY,
)

LABEL_PROJECT = f"{LABEL_DOMAIN}/project"
# GitLab's predefined variables -> labels, for jobs' cells
CI_LABELS = {
    "CI_PIPELINE_ID": f"{LABEL_DOMAIN}/pipeline",
    "CI_JOB_ID": f"{LABEL_DOMAIN}/job",
    "CI_PROJECT_ID": LABEL_PROJECT,
}
NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9_.-]")


def cell_labels(
    *, run: str, cell: str, attempt: int, expires_at: float, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the labels of a cell's objects.

    Args:
        expires_at: seconds since the epoch after which anyone may take the cell away.
        environment: where the CI's variables are read from; os.environ without it.
    """
    variables = os.environ if environment is None else environment
    labels = {
        LABEL_MANAGED: MANAGED_BY,
        LABEL_RUN: run,
        LABEL_CELL: cell,
        LABEL_ATTEMPT: str(attempt),
        LABEL_EXPIRES: str(int(expires_at)),
    }
    for variable, label in CI_LABELS.items():
        if value := _label_value(variables.get(variable, "")):
            labels[label] = value
    return labels


def is_label_value(text: str) -> bool:
    """Tell whether a text can be a run's or cell's id: both are values of labels."""
    return re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text) is not None


def own_project(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the CI project that this process is a job of, None outside of a CI."""
    variables = os.environ if environment is None else environment
    return _label_value(variables.get("CI_PROJECT_ID", "")) or None


def _label_value(text: str) -> str:
    """Return a text as a label's value, which begins and ends with a letter or digit; "" where nothing is left."""
    return NOT_IN_A_LABEL.sub("_", text)[:63].strip("_.-")


def expired(labels: Mapping[str, str], *, at: float | None = None) -> bool:
    """Tell whether an object's expiry has passed; one without a readable expiry never expires."""
    try:
        return float(labels[LABEL_EXPIRES]) <= (time.time() if at is None else at)
    except (KeyError, ValueError):
        return False


def namespace_name(run: str, cell: str, attempt: int) -> str:
    """Return a cell's namespace: deterministic, at most 63 characters (run ids have 6)."""
    return f"vmatrix-{cell}-{run}-{attempt}"
