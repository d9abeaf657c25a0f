"""Histograms as programs expose them: of what happened between two looks, the mean and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.validate.performance.exposition import Sample

K = TypeVar("K")
PARTS = ("_bucket", "_sum", "_count")


@dataclass(frozen=True)
class Buckets:
    """How many observations were at most so large, by that bound (the last one is infinite), and their sum."""

    counts: Mapping[float, float]
    total: float = 0.0

    @property
    def count(self) -> float:
        """Return how many observations there were."""
        return self.counts.get(math.inf, 0.0)

    @property
    def mean(self) -> float:
        """Return their mean; 0 without any."""
        return self.total / self.count if self.count else 0.0

    def plus(self, other: Buckets) -> Buckets:
        """Return both together."""
        both = {b: self.counts.get(b, 0.0) + other.counts.get(b, 0.0) for b in (*self.counts, *other.counts)}
        return Buckets(both, self.total + other.total)

    def since(self, before: Buckets) -> Buckets:
        """Return what was observed after an earlier look; all of it where the program has started anew since then."""
        if self.count < before.count:
            return self
        left = {bound: count - before.counts.get(bound, 0.0) for bound, count in self.counts.items()}
        return Buckets(left, self.total - before.total)

    def quantile(self, share: float) -> float:
        """Return a quantile as Prometheus' histogram_quantile does: interpolated within the bucket that it lies in.

        What lies above the last finite bound counts as that bound. 0 without observations.
        """
        rank, below, seen = share * self.count, 0.0, 0.0
        if not self.count:
            return 0.0
        for bound, count in sorted(self.counts.items()):
            if count >= rank:
                if math.isinf(bound):
                    return below
                inside = count - seen
                return below + (bound - below) * ((rank - seen) / inside if inside else 1.0)
            below, seen = bound, count
        return below


def names(metric: str) -> tuple[str, ...]:
    """Return the names of a histogram's samples."""
    return tuple(metric + part for part in PARTS)


def histograms(found: Iterable[Sample], metric: str, by: Callable[[Mapping[str, str]], K | None]) -> dict[K, Buckets]:
    """Return a metric's histograms, those of the same key together.

    Args:
        by: returns the key of a sample's labels; None for one that does not count.
    """
    made: dict[K, Buckets] = {}
    for sample in found:
        key = by(sample.labels)
        if key is None:
            continue
        if sample.name == f"{metric}_bucket":
            one = Buckets({float(sample.labels["le"]): sample.value})
        elif sample.name == f"{metric}_sum":
            one = Buckets({}, sample.value)
        else:
            continue
        made[key] = made[key].plus(one) if key in made else one
    return made


def between(before: Mapping[K, Buckets], after: Mapping[K, Buckets]) -> dict[K, Buckets]:
    """Return what was observed between two looks, by key; without what nothing was observed of."""
    nothing = Buckets({})
    found = {key: seen.since(before.get(key, nothing)) for key, seen in after.items()}
    return {key: seen for key, seen in found.items() if seen.count}
