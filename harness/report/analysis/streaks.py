"""Is it new or known, always or sometimes, and since when: judged from a series of good and bad nights.

A night that says nothing about the code (the infrastructure failed, the run was cut off) is in no series; the words are
those of TestGrid (github.com/GoogleCloudPlatform/testgrid): ten results decide, three failures in a row are a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from harness.history.record import Record

RECENT = 10  # judged nights that decide a habit
ALWAYS = 3  # failures in a row that are no accident
FAILURES = ("failed", "quarantined")

Habit = Literal["never", "new", "always", "sometimes"]


@dataclass(frozen=True)
class Judged:
    """One night's verdict: its number, and whether it was bad."""

    night: int
    bad: bool


@dataclass(frozen=True)
class Range:
    """Between which nights something broke: the last good one (-1: none is known) and the first bad one.

    between: nights between them that say nothing.
    """

    good: int
    bad: int
    between: int


def verdict(record: Record, *, infra: bool) -> bool | None:
    """Tell whether a record is bad by the code, or by the infrastructure with `infra`; None when it says nothing."""
    if record.outcome == "passed":
        return False
    if record.outcome not in FAILURES:
        return None
    return True if (record.blame == "infra") == infra else None


def series_of(records: Sequence[tuple[int, Record]]) -> tuple[Judged, ...]:
    """Return a cell's series: of the infrastructure if that is what failed last, else of the code."""
    infra = any(r.outcome in FAILURES and r.blame == "infra" for _, r in records[-1:])
    judged = ((night, verdict(record, infra=infra)) for night, record in records)
    return tuple(Judged(night, bad) for night, bad in judged if bad is not None)


def streak(series: Sequence[Judged]) -> int:
    """Return how many of the last nights were bad in a row."""
    return sum(1 for _ in takewhile(lambda judged: judged.bad, reversed(series)))


def habit(series: Sequence[Judged]) -> Habit:
    """Return how often it fails: never of late, only just now, always, or sometimes."""
    recent = series[-RECENT:]
    bad = sum(j.bad for j in recent)
    now = streak(series)
    if now >= ALWAYS:
        return "always"
    if bad == 0:
        return "never"
    return "new" if bad == now else "sometimes"


def since(series: Sequence[Judged]) -> Range | None:
    """Return between which nights the present failure began, None when it does not fail now."""
    count = streak(series)
    if not count:
        return None
    first = series[-count].night
    good = series[-count - 1].night if len(series) > count else -1
    return Range(good, first, first - good - 1 if good >= 0 else 0)


def fixed(series: Sequence[Judged]) -> bool:
    """Tell whether the last night was good and the one before it was bad."""
    return len(series) >= 2 and not series[-1].bad and series[-2].bad
