"""How long the contract tests wait: each limit is stretched by the setting timeout_scale, as the harness's own are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.artifacts.recipe import ArtifactLimits
from harness.errors import BadInput
from harness.kube.api import Patience
from harness.spec.models import Timeouts
from harness.spec.project import timeouts_of
from harness.spec.settings import PREFIX, Settings, load_settings
from harness.until import Deadline

VARIABLE = f"{PREFIX}TIMEOUT_SCALE"


def configure(config: pytest.Config) -> None:
    """Hand the option --timeout-scale on to all that reads settings in this process and below it."""
    given: float | str | None = config.getoption("--timeout-scale")
    try:
        load_settings(Path.cwd(), options={"timeout_scale": given})
    except BadInput as mistake:
        raise pytest.UsageError(str(mistake)) from mistake
    if given is not None:
        os.environ[VARIABLE] = str(given)


def settings() -> Settings:
    """Return the settings of the working directory and the environment."""
    return load_settings(Path.cwd()).settings


def timeouts() -> Timeouts:
    """Return the limits of matrix/timeouts.yml, stretched."""
    return timeouts_of(settings())


def artifacts() -> ArtifactLimits:
    """Return the limits of what is built for the tests, stretched."""
    return ArtifactLimits.of(timeouts())


def patience() -> Patience:
    """Return how long one request may take, stretched; each is made once."""
    return Patience.of(timeouts()).once()


def lasting(seconds: float) -> float:
    """Return a number of seconds, stretched."""
    return seconds * settings().timeout_scale


def within(seconds: float) -> Deadline:
    """Return the deadline after a number of seconds, stretched."""
    return Deadline.after(lasting(seconds))
