"""Checkouts whose pipelines the tests run.

Needs the programs of tests/gitlab/package.json and rsync; the tests marked `cells` also root and the built artifacts.
They fail, with what is missing, where they do not have them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gitlab import checkout
from tests.gitlab.checkout import NODE, PREPARE, PROGRAM, Checkout
from tests.gitlab.faults import FaultNotes
from tests.gitlab.pods_site import site, smallest, teams, there

# One infra cluster for all tests of a session: a module that imported these would have another one.
__all__ = ["site", "smallest", "teams", "there"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know whether what came of faults is kept."""
    parser.addoption("--keep-faults", action="store_true", help="keep what came of faults, and write the page")


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of tests with real cells."""
    config.addinivalue_line("markers", "cells: runs real cells on the embedded infrastructure (root, minutes)")


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    """Say what is missing before anything is tried."""
    if not NODE.is_file():
        pytest.fail(f"{NODE} is missing: install the dependency group `gitlab`, or run `tox -e gitlab`", pytrace=False)
    if not PROGRAM.is_file():
        pytest.fail(f"{PROGRAM} is missing: {PREPARE}", pytrace=False)
    if shutil.which("rsync") is None:
        pytest.fail("rsync is missing: apt-get install rsync", pytrace=False)


@pytest.fixture(scope="session")
def note(request: pytest.FixtureRequest) -> FaultNotes:
    """Return what takes down faults."""
    return FaultNotes(request.config.getoption("--keep-faults"))


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a checkout that no test changes."""
    return checkout.make(tmp_path_factory.mktemp("pristine") / "vmatrix")


@pytest.fixture
def project(pristine: Checkout, tmp_path: Path) -> Checkout:
    """Return a checkout of the test's own."""
    target = tmp_path / "vmatrix"
    shutil.copytree(pristine.directory, target, symlinks=True)
    return Checkout(target)
