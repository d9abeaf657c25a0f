"""Figures as Prometheus reads them: counters, gauges and histograms with labels; thread-safe.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """One metric: its name, what kind it is, what it says, and the names of its labels."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()

    def lines(self, samples: Mapping[Labels, float]) -> str:
        """Return the metric with these samples, by the values of its labels."""
        return self.head() + "".join(f"{self.name}{self.named(by)} {number(value)}\n" for by, value in samples.items())

    def head(self) -> str:
        """Return what comes before the samples."""
        return f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"

    def named(self, values: Labels, **more: str) -> str:
        """Return labels as they stand behind a name."""
        pairs = {**dict(zip(self.labels, values, strict=True)), **more}
        words = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())
        return f"{{{words}}}" if pairs else ""


@dataclass
class Tally:
    """A counter."""

    family: Family
    _values: Counter[Labels] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *by: str) -> None:
        """Tally one."""
        with self._lock:
            self._values[by] += 1

    def lines(self) -> str:
        """Return the metric."""
        with self._lock:
            return self.family.lines(dict(sorted(self._values.items())))


@dataclass
class Histogram:
    """How many observations were at most so large."""

    family: Family
    bounds: tuple[float, ...]
    _seen: dict[Labels, list[float]] = field(default_factory=dict)  # a count for each bound, all, and the sum
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, value: float, *by: str) -> None:
        """Take in an observation."""
        with self._lock:
            seen = self._seen.setdefault(by, [0.0] * (len(self.bounds) + 2))
            for place, bound in enumerate(self.bounds):
                seen[place] += value <= bound
            seen[-2] += 1
            seen[-1] += value

    def lines(self) -> str:
        """Return the metric."""
        with self._lock:
            return self.family.head() + "".join(self._of(by, seen) for by, seen in sorted(self._seen.items()))

    def _of(self, by: Labels, seen: Iterable[float]) -> str:
        *buckets, count, total = seen
        name, named = self.family.name, self.family.named
        rows = [(number(bound), found) for bound, found in zip(self.bounds, buckets, strict=True)]
        lines = [f"{name}_bucket{named(by, le=le)} {number(found)}\n" for le, found in [*rows, ("+Inf", count)]]
        return "".join(
            [*lines, f"{name}_sum{named(by)} {number(total)}\n", f"{name}_count{named(by)} {number(count)}\n"]
        )


def number(value: float) -> str:
    """Return a number as it is written: whole ones without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
