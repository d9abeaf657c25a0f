"""The command that runs a cell again, as it can be pasted into a shell."""

from __future__ import annotations

import shlex

from harness.history.record import Record


def reproduce(cell: str, record: Record | None) -> str:
    """Return the command that runs a cell at a desk, with the suites of its tier."""
    argv = ["vmatrix", "run", cell]
    if record is not None and record.tier:
        argv += ["--tier", record.tier]
    return shlex.join(argv)
