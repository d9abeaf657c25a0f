"""Exit codes of runs: one that says whose fault it was, and the worst of a run that is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness import proc
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
from harness.interpreter import PYTEST, call
from harness.model import Outcome
from harness.report.cell import CellResult
from harness.report.results import RunResult
from harness.streams import plain_console

# Among failures of several kinds, the one that a script must hear of first.
SEVERITY = (EXIT_LEAKED, EXIT_HARNESS, EXIT_PRODUCT, EXIT_INFRA, EXIT_RETRY, EXIT_BAD_INPUT)
ENDED_WELL = (
    Outcome.PASSED,
    Outcome.QUARANTINED,
    Outcome.UNCHECKED,
)  # a cell that no failure explains and that is none of these was lost
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


ENDS = (EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED)  # would be the same every time


def repeated(pytest_words: Sequence[str], times: int, *, fail_fast: bool) -> int:
    """Run pytest several times, and return the exit code of the worst run.

    Args:
        fail_fast: whether the first run that did not pass is the last.
    """
    console, codes = plain_console(stderr=True), list[int]()
    for number in range(1, times + 1):
        console.print(f"run {number} of {times}")
        code = proc.attend(call(PYTEST, *pytest_words))
        codes.append(code)
        if proc.by_signal(code) or code in ENDS or (fail_fast and code != EXIT_OK):
            break
    for line in told(codes, times):
        console.print(line)
    return worst(codes)


def worst(codes: Sequence[int]) -> int:
    """Return the exit code that a script must hear of first; that of a signal before all."""
    signals = [128 - code if code < 0 else code for code in codes if proc.by_signal(code)]
    return next(iter([*signals, *(code for code in SEVERITY if code in codes), *filter(None, codes)]), EXIT_OK)


def told(codes: Sequence[int], times: int) -> list[str]:
    """Return how many runs passed, and what the others ended with."""
    left = times - len(codes)
    head = f"{codes.count(EXIT_OK)} of {len(codes)} runs passed" + (f", {left} not begun" if left else "")
    failed = Counter(code for code in codes if code != EXIT_OK)
    return [head, *(f"  exit code {code}: {number}" for code, number in failed.items())]
