"""What values cost: a figure of a cell that never ran, by what cells with its values took.

Effects of values multiply, so the model is linear in logarithms: a base, an effect of every value, and one of every
topology and scenario together. Each effect is shrunk towards none by how few runs tell of it (ridge regression, Hoerl
and Kennard 1970), and they are found in turns (backfitting, Breiman and Friedman 1985), which needs no matrix.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

KIND = ("topology", "scenario")  # axes whose values count together as well
MOST_SAMPLES = 1500  # the latest; older ones tell of older code
RIDGE = 1.0  # runs that say "no effect"
SWEEPS = 20
OUTLIER = 3.0  # deviations (scaled median absolute) beyond which a run counts for no more
SCALE = 1.4826  # of a normal distribution, in median absolute deviations
NO_OUTLIER = math.log(1.5)  # what differs by less is none, even where most runs took exactly the same
HIGH = 0.95  # quantile of what runs took, by what was expected of them


@dataclass(frozen=True)
class Sample:
    """One measurement: the values that it was made with, by axis, and a figure above 0."""

    values: Mapping[str, str]
    figure: float


@dataclass(frozen=True)
class ValueModel:
    """What figures are expected to be.

    base: the logarithm of a usual figure.  effects: what is added to it, by value, and by topology and scenario.
    high: the factor below which 95 % of the samples were, by what is expected of them.  samples: how many there were.
    """

    base: float
    effects: Mapping[Hashable, float]
    high: float
    samples: int

    def expected(self, values: Mapping[str, str]) -> float:
        """Return what is expected of a cell with these values; what no sample tells of has no effect."""
        return math.exp(self.base + sum(self.effects.get(name, 0.0) for name in _names(values)))

    def knows(self, values: Mapping[str, str]) -> bool:
        """Tell whether some sample had the topology, and some the scenario."""
        return all((axis, values.get(axis, "")) in self.effects for axis in KIND)


def fitted(samples: Sequence[Sample]) -> ValueModel | None:
    """Return the model of some samples, the latest last; None without any."""
    latest = [sample for sample in samples if sample.figure > 0][-MOST_SAMPLES:]
    if not latest:
        return None
    logs = [math.log(sample.figure) for sample in latest]
    base = median(logs)
    having: dict[Hashable, list[int]] = {}
    for number, sample in enumerate(latest):
        for name in _names(sample.values):
            having.setdefault(name, []).append(number)
    effects: dict[Hashable, float] = dict.fromkeys(having, 0.0)
    rest = [log - base for log in logs]
    for _ in range(SWEEPS):
        limit = max(NO_OUTLIER, OUTLIER * SCALE * median(abs(one) for one in rest))
        for name, numbers in having.items():
            before = effects[name]
            mean = sum(before + max(-limit, min(limit, rest[n])) for n in numbers) / (len(numbers) + RIDGE)
            effects[name] = mean
            for n in numbers:
                rest[n] += before - mean
        shift = sum(max(-limit, min(limit, one)) for one in rest) / len(rest)
        base += shift
        rest = [one - shift for one in rest]
    high = sorted(rest)[math.ceil(HIGH * len(rest)) - 1]
    return ValueModel(base, effects, math.exp(max(0.0, high)), len(latest))


def errors(samples: Sequence[Sample], folds: int = 5) -> list[float]:
    """Return by how much each sample is off a model of the cells in other folds, as a share of its figure.

    A fold has whole cells: of no cell that is judged, the model has seen a run.
    """
    cells = {frozenset(sample.values.items()): n % folds for n, sample in enumerate(samples)}
    found = []
    for fold in range(folds):
        inside = [s for s in samples if cells[frozenset(s.values.items())] == fold]
        model = fitted([s for s in samples if cells[frozenset(s.values.items())] != fold])
        if model is not None:
            found += [abs(model.expected(s.values) / s.figure - 1) for s in inside]
    return found


def _names(values: Mapping[str, str]) -> Iterable[Hashable]:
    yield from values.items()
    yield tuple(values.get(axis, "") for axis in (*KIND, "")) if values else ()
