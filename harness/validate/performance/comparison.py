"""Whether a run's figures are slower than usual: the noise of the runs before, and what lies outside of it.

Runs are compared in logarithms, so that a band is a ratio. A figure is slower if each of the last three runs lies
outside of a band around the median of the runs before them. One odd run, however odd, is not enough: among some sixty
figures of a run there often is one. That is why the band may be near enough to find a change of 30 %.

The band is a quantile of Student's t for the number of runs, times the spread of those runs. The quantile is such that
all figures of a run together raise far less than one false alarm in 200 runs if noise is normal; the rest of the budget
is for noise that is not (tests/unit/validate/performance/test_comparison.py counts).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, median

from harness.validate.performance.figures import Figure, Key, amount, calibrated, label_of, over_slo, took

NOW = 3  # runs that have to agree
PAST = 20  # runs before them that are "usual"
FEWEST = 8  # of these, below which nothing is said
BUDGET = 6000.0  # runs in which all figures together raise one false alarm, were noise normal
NOTICED = 1.10  # a smaller ratio is not worth a word, however little noise there is
SHARE = 0.8  # of the deviations, the one that stands for the spread: a fifth of the runs may be odd
LEAST_SPREAD = 0.01  # figures are rounded, and a spread of nothing is luck
OF_NORMAL = NormalDist().inv_cdf((1 + SHARE) / 2)
DEGREES = 0.3  # of freedom that such a quantile has, for each of a standard deviation's
FEWEST_DEGREES = 3.0  # below, the expansion of t is not to be used
History = Sequence[Mapping[Key, Figure]]  # of each run the figures by key; oldest first


@dataclass(frozen=True)
class Band:
    """What is usual for a figure: the median of so many runs, and the ratio to it that is within the noise.

    noise: the spread of these runs, as a ratio less 1 (0.08: 8 %).  edge: the ratio that three runs have to exceed.
    """

    usual: float
    runs: int
    noise: float
    edge: float

    @property
    def finds(self) -> float:
        """Return the ratio from which on a slow-down is found within three runs, nearly always.

        All three runs have to leave the band, and the unluckiest of three lies about 1.5 spreads below their middle.
        """
        return float(self.edge * (1.0 + self.noise) ** 1.5)


@dataclass(frozen=True)
class Slowdown:
    """A figure that is slower: what is usual for it, and how many times that the last three runs took (median)."""

    band: Band
    ratio: float


@dataclass(frozen=True)
class SlowFigure:
    """A figure that is slower than usual.

    ratio: to the median of the runs before, calibrated where that makes their noise smaller.  plain: not calibrated.
    usual: what that median is in the figure's own unit.
    """

    figure: Figure
    ratio: float
    plain: float
    band: Band
    usual: float
    was_calibrated: bool

    @property
    def told(self) -> str:
        """Return one line for people."""
        figure, by = self.figure, "calibrated " if self.was_calibrated else ""
        return (
            f"{label_of(figure.key)}: {amount(figure.name, figure.value)}, {by}{self.ratio:.2f} times the usual "
            f"{amount(figure.name, self.usual)} (median of {self.band.runs} runs; noise up to {self.band.edge:.2f})"
        )


@dataclass(frozen=True)
class Comparison:
    """What the figures of a run come to.

    slower: the worst first.  over: (figure, SLO) of those over it.  compared: how many had enough runs before them.
    young: how many did not.  bands: what is usual, of those compared.
    """

    slower: tuple[SlowFigure, ...] = ()
    over: tuple[tuple[Figure, float], ...] = ()
    compared: int = 0
    young: int = 0
    bands: Mapping[Key, Band] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """Return one line for reports."""
        parts = [f"slower: {slow.told}" for slow in self.slower]
        parts += [f"over the SLO of {amount(slow.name, most)}: {slow.told}" for slow, most in self.over]
        young = f"{self.young} have fewer than {FEWEST + NOW - 1} runs before this one" if self.young else ""
        parts += [f"{self.compared} figures compared", *([young] if young else [])]
        return "; ".join(parts)


def compare(now: Mapping[Key, Figure], past: History) -> Comparison:
    """Judge the figures of a run, the last runs included.

    Args:
        now: the figures of the run.  past: those of the runs before, of the same cell, phase and infra profile.
    """
    series = {key: [*(run[key] for run in past if key in run), figure] for key, figure in now.items()}
    enough = {key: figures for key, figures in series.items() if len(figures) >= FEWEST + NOW}
    usual = {key: _usual(figures, len(enough)) for key, figures in enough.items()}
    slow_figures = [slow for key in enough if (slow := _slow(enough[key], len(enough), *usual[key])) is not None]
    over = [(figure, most) for figure in now.values() if (most := over_slo(figure)) is not None]
    return Comparison(
        slower=tuple(sorted(slow_figures, key=lambda slow: -slow.ratio)),
        over=tuple(over),
        compared=len(enough),
        young=len(now) - len(enough),
        bands={key: of for key, (of, _) in usual.items()},
    )


def _usual(figures: Sequence[Figure], together: int) -> tuple[Band, bool]:
    """Return what is usual, and whether it is in terms of calibrations: where the runs before agree better so.

    A figure that does not follow its machines' speed only gets the calibration's noise by it.
    """
    before = figures[:-NOW][-PAST:]
    plain = band([took(figure) for figure in before], together)
    assert plain is not None  # noqa: S101 - there are enough
    if not all(figure.calibration > 0 for figure in figures):
        return plain, False
    steady = band([calibrated(figure) for figure in before], together)
    assert steady is not None  # noqa: S101 - there are enough
    return (steady, True) if steady.noise < plain.noise else (plain, False)


def _slow(figures: Sequence[Figure], together: int, usual: Band, by_calibration: bool) -> SlowFigure | None:
    """Return how slow a figure is; None where it is not slower by more than its noise, or its machines are."""
    plain, steady = [took(figure) for figure in figures], [calibrated(figure) for figure in figures]
    change = slower(steady if by_calibration else plain, together)
    if change is None:
        return None
    if not by_calibration and min(_ratios(steady)) <= NOTICED and figures[-1].calibration > 0:
        return None  # the machines took longer for their fixed work, too, and that is a figure of its own
    value = sorted(figure.value for figure in figures[:-NOW][-PAST:])
    middle = value[len(value) // 2]
    last = sorted(_ratios(plain))[NOW // 2]
    return SlowFigure(figures[-1], change.ratio, last, usual, middle, by_calibration)


def _ratios(amounts: Sequence[float]) -> list[float]:
    before = sorted(amounts[:-NOW][-PAST:])
    return [value / before[len(before) // 2] for value in amounts[-NOW:]]


def slower(amounts: Sequence[float], figures: int) -> Slowdown | None:
    """Return how much slower the last three runs are than those before; None where they are not, or too few.

    Args:
        amounts: as `band` takes them, with the last run as the last one.
    """
    usual = band(amounts[:-NOW], figures)
    if usual is None:
        return None
    ratios = [amount / usual.usual for amount in amounts[-NOW:]]
    return Slowdown(usual, median(ratios)) if min(ratios) > usual.edge else None


def band(past: Sequence[float], figures: int) -> Band | None:
    """Return what is usual; None with too few runs.

    Args:
        past: of each run before, what it took: seconds, or any amount of which less is better. Oldest first; positive.
        figures: how many are judged together.
    """
    if len(past) < FEWEST:
        return None
    recent = [math.log(amount) for amount in past[-PAST:]]
    count, middle = len(recent), median(recent)
    above = sorted(figure - middle for figure in recent if figure >= middle)
    both = sorted(abs(figure - middle) for figure in recent)
    spread = max(LEAST_SPREAD, *(quantile(of, SHARE) / OF_NORMAL for of in (both, above)))
    chance = (1.0 / (BUDGET * max(1, figures))) ** (1.0 / NOW)
    edge = student(chance, DEGREES * (count - 1)) * spread * math.sqrt(1.0 + 1.0 / count)
    return Band(math.exp(middle), count, math.expm1(spread), max(NOTICED, math.exp(edge)))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ordered numbers, interpolated between two of them."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def student(chance: float, degrees: float) -> float:
    """Return what Student's t of so many degrees of freedom exceeds with this chance.

    An expansion about the normal quantile (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5), exact to
    some per cent from three degrees on.
    """
    z, n = NormalDist().inv_cdf(1.0 - chance), max(FEWEST_DEGREES, degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
