"""The suites of checks: the folders of tests/cells, and those of the project's own folder `checks/`.

A folder checks/NAME is the suite NAME, and the files directly in checks/ are the suite `own`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.paths import packaged_dir

OWN = "own"  # the suite of the files that lie directly in the project's folder
CHECKS = "checks"  # that folder
SHIPPED = Path("tests", "cells")
PERFORMANCE = "performance"
IDEMPOTENCE = "idempotence"  # runs a phase once more
CERTIFICATION = "certification"  # upstream's whole set [Conformance]
E2E = "e2e"  # upstream's specs of features
CONFORMANCE = "conformance"  # upstream's curated specs
UPSTREAM = frozenset({CERTIFICATION, E2E})
FROM_UPSTREAM = UPSTREAM | {CONFORMANCE}  # run upstream's programs where the run is
ON_REQUEST = UPSTREAM | {PERFORMANCE}  # run only where a tier or --suite names them: they put load on a cluster
LIFE = "life"  # the steps of a cell, which run for every tier
TESTS = ("test_*.py", "*_test.py")  # pytest's python_files
KIND = f"suite (a folder of {SHIPPED} or of {CHECKS}/)"


@dataclass(frozen=True)
class Suite:
    """A suite by its name.

    folder: where its files lie; files: those with checks, sorted.  own: whether it is the project's.
    """

    name: str
    folder: Path
    files: tuple[Path, ...]
    own: bool


def suites_of(project: Path) -> dict[str, Suite]:
    """Return all suites by name: those that ship (or that the project has in their place), then the project's own."""
    places = (project / SHIPPED, packaged_dir() / SHIPPED)
    shipped = next((place for place in places if place.is_dir()), None)
    found = [Suite(folder.name, folder, _tests(folder), own=False) for folder in _folders(shipped)]
    return {suite.name: suite for suite in (*own_suites(project), *found) if suite.files}


def own_suites(project: Path) -> tuple[Suite, ...]:
    """Return the project's own suites."""
    folder = project / CHECKS
    direct = tuple(sorted(file for pattern in TESTS for file in folder.glob(pattern)))
    below = [Suite(inner.name, inner, _tests(inner), own=True) for inner in _folders(folder)]
    return tuple(suite for suite in (Suite(OWN, folder, direct, own=True), *below) if suite.files)


def misnamed(project: Path) -> list[str]:
    """Return what is wrong with the names of the project's own suites: a name has one folder."""
    own = own_suites(project)
    shipped = {folder.name for folder in _folders(packaged_dir() / SHIPPED)} | {LIFE}
    wrong = [
        f"{suite.folder}: vmatrix has a suite {suite.name!r}, and a name has one folder; rename yours"
        for suite in own
        if suite.name in shipped
    ]
    taken = [suite.folder for suite in own if suite.name == OWN and suite.folder.name == OWN]
    return wrong + [
        f"{folder}: {OWN!r} is the suite of the files directly in {folder.parent}; rename the folder"
        for folder in taken
    ]


def suite_in(folder: Path, file: Path) -> str:
    """Return the suite of a file below the project's own folder."""
    inside = file.relative_to(folder).parts
    return inside[0] if len(inside) > 1 else OWN


def _folders(folder: Path | None) -> Iterable[Path]:
    if folder is None or not folder.is_dir():
        return ()
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _tests(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(file for pattern in TESTS for file in folder.rglob(pattern)))
