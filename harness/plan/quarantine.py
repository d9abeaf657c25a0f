"""Which failures are in quarantine: they run and report, and do not fail the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from harness.spec.layers import read
from harness.spec.lines import Problem
from harness.spec.models import QuarantineEntry

FILE = "quarantine.yml"
REMEDY = "`vmatrix list` shows their ids; remove the entry, or fix its cell"


def match(entries: Sequence[QuarantineEntry], cell: str, check: str | None, today: date) -> QuarantineEntry | None:
    """Return the first entry that excuses a failure, None without one.

    Args:
        check: "suite: name"; None for a step, which only entries without a check excuse.
        today: an entry whose last day is before it excuses nothing any more.
    """
    for entry in entries:
        if entry.until < today or not fnmatchcase(cell, entry.cell):
            continue
        if entry.check is None or (check is not None and fnmatchcase(check, entry.check)):
            return entry
    return None


def unmatched(entries: Sequence[QuarantineEntry], cells: Iterable[str], directory: Path) -> list[Problem]:
    """Return an error, by line of the file, for each entry that fits none of the planned cells (of all profiles)."""
    document, _ = read(directory, FILE)
    known = sorted(set(cells))
    return [
        document.problem(("quarantine", number, "cell"), f"{entry.cell!r} matches no planned cell; {REMEDY}")
        for number, entry in enumerate(entries)
        if not any(fnmatchcase(cell, entry.cell) for cell in known)
    ]
