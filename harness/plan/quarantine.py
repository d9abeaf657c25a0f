"""Which failures are in quarantine: they run and report, and do not fail the run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase

from harness.spec.models import QuarantineEntry


def match(entries: Sequence[QuarantineEntry], cell: str, check: str | None, today: date) -> QuarantineEntry | None:
    """Return the first entry that excuses a failure, None without one.

    Args:
        cell: the cell's id.
        check: "suite: name"; None for a step, which only entries without a check excuse.
        today: an entry whose last day is before it excuses nothing any more.
    """
    for entry in entries:
        if entry.until < today or not fnmatchcase(cell, entry.cell):
            continue
        if entry.check is None or (check is not None and fnmatchcase(check, entry.check)):
            return entry
    return None
