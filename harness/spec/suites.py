"""The suites of checks: the folders of tests/cells, those of the project's own folder `checks/`, and what is left out.

A folder checks/NAME is the suite NAME, and the files directly in checks/ are the suite `own`. The checks that a
product leaves out (`checks.leave_out` of product.yml) must exist, and some must be left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import read_bytes
from harness.paths import packaged_dir
from harness.spec.declared import EACH, find, texts
from harness.spec.lines import Finding

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
    suites = [Suite(folder.name, folder, _tests(folder), own=False) for folder in _folders(shipped)]
    return {suite.name: suite for suite in (*own_suites(project), *suites) if suite.files}


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


CHECK = re.compile(r"^(?:async )?def (test_\w+)\(|^class (Test\w*)|^[ \t]+(?:async )?def (test_\w+)\(", re.MULTILINE)


def check(content: Any, project: Path) -> Iterator[Finding]:
    """Find globs that match no check, and globs that together leave none."""
    globs = list(texts(content, "product", "checks", "leave_out", EACH, "check"))
    names = titles(project) if globs else []
    if not names:
        return
    for at, glob in globs:
        if not any(fits(name, glob) for name in names):
            yield (
                at,
                f"{glob!r} matches no check; `vmatrix explain CELL` lists their files",
            )
    if all(any(fits(name, glob) for _, glob in globs) for name in names):
        for at, _ in find(content, "product", "checks", "leave_out"):
            yield at, "leaves out every check, so that a cell would prove nothing; leave one in"


def fits(title: str, glob: str) -> bool:
    """Tell whether a glob means a check, `suite: name`; with or without the conformance spec in its brackets."""
    return fnmatchcase(title, glob) or fnmatchcase(title.partition("[")[0], glob)


def fits_any(project: Path, glob: str) -> bool:
    """Tell whether a glob means any check; with no check to be found, none can be missed."""
    names = titles(project)
    return not names or any(fits(name, glob) for name in names)


def titles(project: Path) -> list[str]:
    """Return every check as `suite: name`: those of the project's own suites and those that ship."""
    files = [(suite.name, file) for suite in suites_of(project).values() for file in suite.files if suite.name != LIFE]
    return sorted({f"{suite}: {name}" for suite, file in files for name in _names(_text(file))})


def _names(text: str) -> Iterator[str]:
    """Yield the checks of a file; those of a class with its name before theirs."""
    within = ""
    for alone, of_class, inside in CHECK.findall(text):
        within = of_class or within
        if alone or inside:
            yield alone or f"{within}::{inside}"


def _text(file: Path) -> str:
    """Return what a file holds; what is wrong with one of the project's own is said when it is loaded."""
    try:
        return read_bytes(file).decode(errors="replace")
    except BadInput:
        return ""
