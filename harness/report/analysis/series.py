"""A series of nights, each good or bad: since when it fails, how often, how flaky it is. For cells and for checks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from math import sqrt
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


WINDOW = 60  # judged nights
HALF_LIFE = 14.0  # nights
ENOUGH = 10  # nights below which a rate is not worth showing
Z = 1.959964  # of 95 %


@dataclass(frozen=True)
class Rate:
    """A rate from 0 to 1 with its interval; `failed` of `n` nights, unweighted."""

    rate: float
    low: float
    high: float
    failed: int
    n: int

    @property
    def enough(self) -> bool:
        """Tell whether the sample is worth showing."""
        return self.n >= ENOUGH


def flaky(series: Sequence[Judged], *, retried: Collection[int] = ()) -> Rate:
    """Return the rate of flakes; `retried` are numbers of good nights that were good only at a later attempt."""
    over = series[: len(series) - streak(series)][-WINDOW:]
    if not over:
        return Rate(0.0, 0.0, 1.0, 0, 0)
    flakes = _flakes(over) | {j.night for j in over if not j.bad and j.night in retried}
    last = over[-1].night
    weights = {j.night: 0.5 ** ((last - j.night) / HALF_LIFE) for j in over}
    total = sum(weights.values())
    rate = sum(weights[night] for night in flakes) / total
    effective = total**2 / sum(w * w for w in weights.values())
    low, high = wilson(rate, effective)
    return Rate(round(rate, 4), round(low, 4), round(high, 4), len(flakes), len(over))


def _flakes(series: Sequence[Judged]) -> set[int]:
    """Return the bad nights of streaks that were too short to be a regression."""
    streaks = [[j.night for j in same] for bad, same in groupby(series, key=lambda j: j.bad) if bad]
    return {night for nights in streaks if len(nights) < ALWAYS for night in nights}


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Return the 95 % score interval of a rate that was seen in n trials; n may be a fraction."""
    if n <= 0:
        return 0.0, 1.0
    square = Z * Z
    middle = (rate + square / (2 * n)) / (1 + square / n)
    half = Z * sqrt(rate * (1 - rate) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, middle - half), min(1.0, middle + half)
