"""How often something fails by chance, with an interval that says how much is known.

A flake is a failure that went away by itself: a streak of at most two bad nights that a good one ended, or a first
attempt that failed where a later one passed. A longer streak is a regression and its repair, and no chance; the present
streak is not over and counts neither way. Recent nights weigh more: half as much for every 14 nights of age. The
interval is Wilson's (J. Am. Stat. Assoc. 22, 1927, 209-212) at 95 %, on the effective sample size of the weights
(Kish, Survey Sampling, 1965): (sum w)^2 / sum w^2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt

from harness.report.analysis.streaks import ALWAYS, Judged, streak

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
