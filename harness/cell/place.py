"""Where a cell is in the infra cluster: its namespace, its name there, and the labels that identify it.

In a shared namespace every name begins with the cell, the run and the attempt, and what is the cell's is told by label.
When the namespace is also the job's own, the objects are owned by the job's pod: the API's garbage collector takes them
away with it, whatever becomes of the job. https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from harness.kube.client import Json
from harness.model import (
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_DOMAIN,
    LABEL_EXPIRES,
    LABEL_MACHINE,
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


# What the downward API gives to a runner's job pods; deploy/runner/values.yml sets them.
POD_NAME, POD_UID, POD_NAMESPACE = "POD_NAME", "POD_UID", "POD_NAMESPACE"


@dataclass(frozen=True)
class Place:
    """Where one attempt at a cell has its objects.

    prefix: of every object's name; "" in a namespace of its own.
    selector: the labels of the cell's objects; "" in a namespace of its own, where all objects are the cell's.
    owner: the reference to the pod with which the objects end; None of none.
    """

    namespace: str
    prefix: str = ""
    selector: str = ""
    owner: Mapping[str, str] | None = None

    @property
    def shared(self) -> bool:
        """Tell whether others' objects may lie in the same namespace."""
        return bool(self.selector)

    def name(self, machine: str) -> str:
        """Return the name of a machine's objects; its hostname is the machine's name."""
        return f"{self.prefix}{machine}"


def place_of(
    run: str, cell: str, attempt: int, *, shared: str | None = None, environment: Mapping[str, str] | None = None
) -> Place:
    """Return where an attempt's objects lie; the same from every process, but for the owner.

    Args:
        shared: the namespace that cells share; without it the attempt has one of its own.
        environment: where the job's pod is read from; os.environ without it.
    """
    if shared is None:
        return Place(namespace_name(run, cell, attempt))
    return Place(
        namespace=shared,
        prefix=f"{cell}-{run}-{attempt}-",
        selector=selector_of(run, cell, attempt),
        owner=job_pod(shared, os.environ if environment is None else environment),
    )


def selector_of(run: str, cell: str, attempt: int, machines: Collection[str] = ()) -> str:
    """Return the label selector of an attempt's objects, or of some machines' among them."""
    pairs = [f"{LABEL_RUN}={run}", f"{LABEL_CELL}={cell}", f"{LABEL_ATTEMPT}={attempt}"]
    return ",".join(pairs + ([f"{LABEL_MACHINE} in ({','.join(sorted(machines))})"] if machines else []))


def job_pod(namespace: str, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the owner reference to the pod that this process runs in; None unless it runs in that namespace.

    Owners of another namespace are taken for gone by the garbage collector, and their objects with them.
    """
    name, uid = environment.get(POD_NAME), environment.get(POD_UID)
    if not name or not uid or environment.get(POD_NAMESPACE) != namespace:
        return None
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}


def owned_by(obj: Json) -> dict[str, str]:
    """Return the owner reference to an object that exists."""
    meta = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
