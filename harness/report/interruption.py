"""What a signal did to a run: which cells ran to their end, which were cut off and where, which were not begun."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals

from harness.report import words
from harness.report.cell import CellResult
from harness.report.results import RunResult
from harness.report.step import INTERRUPTED, NOT_STARTED, UNFINISHED

MOST_CELLS = 10  # that are named of those that were cut off, and of those that were not begun


def cause(result: RunResult) -> str:
    """Return what interrupted a run, "" when nothing did."""
    return f"interrupted by {Signals(result.signal).name}" if result.signal else ""


def headline(result: RunResult) -> str:
    """Return how many cells came to what, and first that the run was interrupted."""
    return "; ".join(part for part in (cause(result), words.headline(result)) if part)


def told(result: RunResult) -> list[str]:
    """Return what ran and what did not, line by line; nothing of a run that was not interrupted."""
    if not result.signal:
        return []
    idle = [cell for cell in result.cells if cell.outcome == NOT_STARTED]
    cut = [cell for cell in result.cells if was_cut(cell)]
    ended = len(result.cells) - len(idle) - len(cut)
    head = f"{cause(result)}: {ended} of {len(result.cells)} cells ran to the end"
    head += f", {len(cut)} cut off" if cut else ""
    head += f", {len(idle)} not begun" if idle else ""
    return [head, *_few([_cut(cell, result) for cell in cut]), *_few([f"{cell.id}: not begun" for cell in idle])]


def was_cut(cell: CellResult) -> bool:
    """Tell whether a signal ended the attempt that counts."""
    return cell.outcome in (INTERRUPTED, UNFINISHED) or cell.last_attempt in cell.cut


def _cut(cell: CellResult, result: RunResult) -> str:
    """Return where a cell was cut off, what it had done, and how much it had not."""
    steps = cell.steps_of(cell.last_attempt)
    at = max((s for s in steps if s.outcome == INTERRUPTED), key=lambda s: len(s.path), default=None)
    parts = [f"cut off in {at.name}" if at is not None else "cut off between two steps or in a check"]
    parts += [f"{words.plural(len(cell.last_checks), 'check')} ran"] if cell.last_checks else []
    missing = result.not_run.get(cell.id, 0)
    parts += [f"{missing} steps and checks did not run"] if missing else []
    return f"{cell.id}: {'; '.join(parts)}"


def _few(lines: Sequence[str]) -> list[str]:
    """Return the lines, of many only the first."""
    more = len(lines) - MOST_CELLS
    return [f"  {line}" for line in lines[:MOST_CELLS]] + ([f"  and {more} more"] if more > 0 else [])
