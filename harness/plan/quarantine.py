"""Which failures are in quarantine: they run and report, and do not fail the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from harness.plan.lock import load_lock
from harness.plan.tiers import all_tier_cells
from harness.spec import Spec, layers
from harness.spec.declared import texts
from harness.spec.layers import read
from harness.spec.lines import Problem
from harness.spec.models import QuarantineEntry

FILE = "quarantine.yml"
REMEDY = "`vmatrix list` shows their ids; remove the entry, or name its cells by `where`, which every night has"


def match(
    entries: Sequence[QuarantineEntry], cell: str, values: Mapping[str, str], check: str | None, today: date
) -> QuarantineEntry | None:
    """Return the first entry that excuses a failure, None without one.

    Args:
        values: the cell's, by axis.  check: "suite: name"; None for a step, which only entries without a check excuse.
        today: an entry whose last day is before it excuses nothing any more.
    """
    for entry in entries:
        if entry.until < today or not entry.means(cell, values):
            continue
        if entry.check is None or (check is not None and fnmatchcase(check, entry.check)):
            return entry
    return None


def unmatched(
    entries: Sequence[QuarantineEntry], cells: Mapping[str, Mapping[str, str]], directory: Path
) -> list[Problem]:
    """Return an error, by line of the file, for each entry that fits none of the planned cells (of all profiles).

    Args:
        cells: the values of each by axis, by its id.
    """
    document, _ = read(directory, FILE)
    return [
        document.problem(
            ("quarantine", number, "where" if entry.where else "cell"),
            f"{entry.cells!r} matches no planned cell; {REMEDY}",
        )
        for number, entry in enumerate(entries)
        if not any(entry.means(cell, values) for cell, values in cells.items())
    ]


def idle_globs(spec: Spec, directory: Path) -> list[str]:
    """Return a sentence for each glob in a matrix directory that matches nothing, with its file and line."""
    return [str(problem) for problem in (*_entries(spec, directory), *_paths(directory))]


def _entries(spec: Spec, directory: Path) -> list[Problem]:
    if not spec.quarantine:
        return []
    lock = load_lock(directory)
    planned = (cells for infra in spec.infras for cells in all_tier_cells(spec, infra, lock).values())
    return unmatched(spec.quarantine, {cell.id: cell.values for cells in planned for cell in cells}, directory)


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
