"""Is it slower than usual: the median of the last runs against the median of those before. Never a verdict.

Spread is the median absolute deviation; a difference is worth a look from a modified z-score of 3.5 on (Iglewicz and
Hoaglin, How to Detect and Handle Outliers, 1993), if it is one that a person would notice at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

NOW = 3  # runs that are "now"
PAST = 20  # runs before them that are "usual"
FEWEST = 5  # of the past, below which nothing is said
SIGMA = 1.4826  # of a normal distribution, in median absolute deviations
SCORE = 3.5
NOTICED_SECONDS = 5.0  # not a wait: a smaller change is not shown
NOTICED_RATIO = 1.1


@dataclass(frozen=True)
class Trend:
    """Medians in seconds, of `n_now` runs now and `n` before; `mad` is the spread of those before."""

    now: float
    usual: float
    mad: float
    n: int
    n_now: int

    @property
    def ratio(self) -> float:
        """Return now in terms of usual."""
        return self.now / self.usual if self.usual > 0 else 1.0

    @property
    def notable(self) -> bool:
        """Tell whether it is slower by more than chance and more than nothing."""
        more = self.now - self.usual
        return more > SCORE * SIGMA * self.mad and more > NOTICED_SECONDS and self.ratio > NOTICED_RATIO


def trend(seconds: Sequence[float]) -> Trend | None:
    """Return how durations (oldest first) have changed; None when there are too few."""
    now, past = seconds[-NOW:], seconds[-NOW - PAST : -NOW]
    if len(past) < FEWEST:
        return None
    usual = median(past)
    mad = median(abs(s - usual) for s in past)
    return Trend(round(median(now), 1), round(usual, 1), round(mad, 2), len(past), len(now))
