"""What holds for every unit test.

Hypothesis judges results, never times, which a busy host decides. Nothing hangs on how busy it is. The project is this
checkout, in whatever folder a test works.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings

from harness.paths import PRODUCT, PROJECT, packaged_dir
from harness.plan.cover import cover
from harness.plan.goal import Goal

NEW_OBJECTS = 50_000  # after which garbage is looked for; trees of syntax and of YAML have many, and none of it
# Folders and files that take longest: workers begin with them, so that none is at one when all others have ended.
LONGEST = ("playbooks/", "cell/product/", "test_extending.py", "operator/execute/", "plugin/", "cli/", "session/")
COVERS: dict[str, Any] = {}  # the cells of each goal that was planned

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Name the project, for the commands that tests start, too."""
    os.environ[PROJECT] = str(packaged_dir())
    gc.set_threshold(NEW_OBJECTS, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let workers begin with what takes longest; `-n 0` keeps the order of the files."""

    def turn(item: pytest.Item) -> int:
        path = item.nodeid.removeprefix("tests/unit/")
        return next((n for n, name in enumerate(LONGEST) if path.startswith(name)), len(LONGEST))

    if hasattr(config, "workerinput"):
        items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from looking through thousands of tests again and again."""
    gc.freeze()


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


@pytest.fixture
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan each goal once for all tests that ask for this: the same goal, cells and seed make the same plan."""

    def known(goal: Goal, *, there: Sequence[Mapping[str, str]] = (), seed: int = 0) -> Any:
        key = repr((goal, there, seed))
        if key not in COVERS:
            COVERS[key] = cover(goal, there=there, seed=seed)
        return COVERS[key]

    monkeypatch.setattr("harness.plan.build.cover", known)
