"""What a run's results come to: one exit code that says whose fault it was."""

from __future__ import annotations

from harness.errors import (
    EXIT_BAD_INPUT,
    EXIT_HARNESS,
    EXIT_INFRA,
    EXIT_LEAKED,
    EXIT_NOTHING_SELECTED,
    EXIT_OK,
    EXIT_PRODUCT,
    EXIT_RETRY,
    Blame,
)
from harness.report.cell import CellResult
from harness.report.results import RunResult
from harness.report.step import PASSED, QUARANTINED, UNCHECKED

# Among failures of several kinds, the one that a script must hear of first.
SEVERITY = (EXIT_LEAKED, EXIT_HARNESS, EXIT_PRODUCT, EXIT_INFRA, EXIT_RETRY, EXIT_BAD_INPUT)
ENDED_WELL = (PASSED, QUARANTINED, UNCHECKED)  # a cell that no failure explains and that is none of these was lost
BLAME_EXIT = {
    Blame.PRODUCT.value: EXIT_PRODUCT,
    Blame.INFRA.value: EXIT_INFRA,
    Blame.HARNESS.value: EXIT_HARNESS,
    Blame.USER.value: EXIT_BAD_INPUT,
}


def exit_code(result: RunResult, *, before: int, leaked: bool, pytest_status: int) -> int:
    """Return the exit code of a run that was not interrupted.

    Args:
        before: the code of what went wrong outside any cell, 0 without.
        pytest_status: pytest's own; a failure that no result explains is the harness's.
    """
    codes = {before, *([EXIT_LEAKED] if leaked else []), *(code for cell in result.cells for code in _codes(cell))}
    worst = next((code for code in SEVERITY if code in codes), None)
    if worst is not None:
        return worst
    if before:
        return before
    if any(cell.outcome not in ENDED_WELL for cell in result.cells):
        return EXIT_HARNESS
    return EXIT_OK if pytest_status == 0 or any(cell.quarantined for cell in result.cells) else EXIT_HARNESS


def checks_code(result: RunResult) -> int:
    """Return the exit code of checks alone: what failed in them, or that there were none."""
    codes = {code for cell in result.cells for code in _codes(cell)}
    if not any(cell.checks for cell in result.cells):
        return EXIT_NOTHING_SELECTED
    return next((code for code in SEVERITY if code in codes), EXIT_OK)


def _codes(cell: CellResult) -> list[int]:
    """Return the codes of what counts in a cell's last attempt: not what is in quarantine."""
    steps = [s.exit_code or EXIT_HARNESS for s in cell.last_failures if not s.quarantine]
    checks = [BLAME_EXIT.get(c.blame, EXIT_PRODUCT) for c in cell.failed_checks if not c.quarantine]
    mute = [EXIT_PRODUCT] if cell.judged_nothing(cell.last_attempt) else []  # product.yml leaves nothing to pass
    return steps + checks + mute
