"""The same run several times, one after the other: how often does it fail?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from harness import proc
from harness.errors import EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED, EXIT_OK
from harness.interpreter import PYTEST, call
from harness.session.verdict import SEVERITY

ENDS = (EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED)  # would be the same every time


def repeated(pytest_words: Sequence[str], times: int, *, fail_fast: bool) -> int:
    """Run pytest several times, and return the exit code of the worst run.

    Args:
        fail_fast: whether the first run that did not pass is the last.
    """
    console, codes = Console(stderr=True, highlight=False, soft_wrap=True), list[int]()
    for number in range(1, times + 1):
        console.print(f"run {number} of {times}", markup=False)
        code = proc.attend(call(PYTEST, *pytest_words))
        codes.append(code)
        if proc.by_signal(code) or code in ENDS or (fail_fast and code != EXIT_OK):
            break
    for line in told(codes, times):
        console.print(line, markup=False)
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
