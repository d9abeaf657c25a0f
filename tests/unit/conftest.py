"""What holds for every unit test.

Hypothesis judges results, never times, which a busy host decides. Nothing hangs on how busy it is. The project is this
checkout, in whatever folder a test works.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from harness.paths import PRODUCT, PROJECT, packaged_dir

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Name the project, for the commands that tests start, too."""
    os.environ[PROJECT] = str(packaged_dir())


@pytest.fixture(autouse=True)
def _options_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what `--project` and `--product-file` set for the process of a command, which here is the tests'."""
    monkeypatch.setenv(PROJECT, str(packaged_dir()))
    monkeypatch.setenv(PRODUCT, "")  # noted as absent before, so that what a test sets does not outlive it
    monkeypatch.delenv(PRODUCT)


@pytest.fixture(autouse=True)
def _at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this host have nothing else to do, as far as commands are told."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
