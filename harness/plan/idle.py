"""Globs of the matrix that match nothing: entries of quarantine, and `paths` of values and phases.

They do no harm where they stand, so they are told and not refused: the cell may be another branch's, the file may be
yet to come.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.plan.lock import load_lock
from harness.plan.quarantine import unmatched
from harness.plan.tiers import all_tier_cells
from harness.spec import Spec, layers
from harness.spec.declared import texts
from harness.spec.lines import Problem


def idle_globs(spec: Spec, directory: Path) -> list[str]:
    """Return a sentence for each glob in a matrix directory that matches nothing, with its file and line."""
    return [str(problem) for problem in (*_entries(spec, directory), *_paths(directory))]


def _entries(spec: Spec, directory: Path) -> list[Problem]:
    if not spec.quarantine:
        return []
    lock = load_lock(directory)
    planned = (cells for infra in spec.infras for cells in all_tier_cells(spec, infra, lock).values())
    return unmatched(spec.quarantine, (cell.id for cells in planned for cell in cells), directory)


def _paths(directory: Path) -> Iterator[Problem]:
    project = directory.parent
    for name, places in layers.PATHS.items():
        document, _ = layers.read(directory, name)
        for steps in places:
            for at, glob in texts(document.content, *steps) if "paths" in steps else ():
                if document.place_of(at)[0].is_relative_to(project) and not _fits_any(project, glob):
                    yield document.problem(at, f"{glob!r} matches no file, so no change of one selects a cell by it")


def _fits_any(project: Path, glob: str) -> bool:
    """Tell whether a glob, from the project or absolute, matches a file that is there."""
    start = Path(Path(glob).anchor) if glob.startswith("/") else project
    inside = glob.lstrip("/")
    inside = f"{inside}/*" if inside.endswith("**") else inside
    return any(path.is_file() for path in start.glob(inside))
