"""Figures: kinds of measurements with units and limits, as results carry them, and whether one is slower than usual.

Upstream promises limits of some (SLO): https://github.com/kubernetes/community/blob/master/sig-scalability/slos/slos.md

Runs are compared in logarithms, so that a band is a ratio. A figure is slower if each of the last three runs lies
outside of a band around the median of the runs before them. One odd run, however odd, is not enough: among some sixty
figures of a run there often is one. That is why the band may be near enough to find a change of 30 %.

The band is a quantile of Student's t for the number of runs, times the spread of those runs. The quantile is such that
all figures of a run together raise far less than one false alarm in 200 runs if noise is normal; the rest of the budget
is for noise that is not (tests/unit/validate/performance/test_figures.py counts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, median
from typing import Any, Literal

Work = Literal["cpu", "disk", "network", ""]
POD_START_SLO = 5.0  # seconds, p99, images pulled (pod_startup_latency.md)
API_SLO = 1.0  # seconds, p99, of one object (api_call_latency.md)
API_LIST_SLO = 30.0  # seconds, p99, of a list of a namespace or of all (the same page)


@dataclass(frozen=True)
class FigureKind:
    """One kind of figure.

    unit: "s", or of what it is.  higher: whether more is better.
    work: of the machine's calibration, what the figure is put in relation to; "" for none.
    slo: the most that it should be; None where nobody promises anything.
    """

    name: str
    label: str
    unit: str
    work: Work = ""
    higher: bool = False
    slo: float | None = None


_ALL = (
    FigureKind("machine_cpu", "Calibration: fixed work of one CPU", "s"),
    FigureKind("machine_disk", "Calibration: 4 KiB written with fsync", "s"),
    FigureKind("machine_network", "Calibration: 64 MiB through the machine's own TCP", "s"),
    FigureKind("pod_start_p50", "Pod start, p50", "s", "cpu"),
    FigureKind("pod_start_p99", "Pod start, p99", "s", "cpu", slo=POD_START_SLO),
    FigureKind("api_mean", "API request, mean", "s", "cpu"),
    FigureKind("api_p99", "API request, p99", "s", "cpu"),
    FigureKind("api_storage_mean", "API server's request to etcd, mean", "s", "disk"),
    FigureKind("scheduler_throughput", "Pods scheduled", "/s", "cpu", higher=True),
    FigureKind("service_programming", "Service answered after its endpoint was ready", "s"),
    FigureKind("dns_latency", "DNS answer, mean under steady load", "s", "cpu"),
    FigureKind("dns_rate", "DNS answers, as many as possible", "/s", "cpu", higher=True),
    FigureKind("pod_throughput", "Pod network, throughput", "MB/s", "network", higher=True),
    FigureKind("pod_round_trip", "Pod network, round trip", "s", "cpu"),
    FigureKind("etcd_fsync_mean", "etcd: WAL fsync, mean", "s", "disk"),
    FigureKind("etcd_fsync_p99", "etcd: WAL fsync, p99", "s", "disk"),
    FigureKind("etcd_commit_mean", "etcd: backend commit, mean", "s", "disk"),
    FigureKind("etcd_commit_p99", "etcd: backend commit, p99", "s", "disk"),
    FigureKind("idle_memory", "Memory of the cluster's programs, idle", "MiB"),
    FigureKind("idle_cpu", "CPU of the cluster's programs, idle", "ms/s", "cpu"),
)
KINDS = {kind.name: kind for kind in _ALL}
SCOPES = {"cluster": API_LIST_SLO, "namespace": API_LIST_SLO, "resource": API_SLO}


def slo_of(name: str, where: str) -> float | None:
    """Return the most that a figure should be; that of an API request depends on its scope, the last word of where."""
    if name == "api_p99":
        return SCOPES.get(where.rpartition(" ")[2])
    kind = KINDS.get(name)
    return kind.slo if kind is not None else None


PROPERTY = "figures"  # of a check, in results.jsonl
DIGITS = 5  # that are kept: more is noise
NOTHING = 1e-9  # stands for 0, of which there is no ratio

Key = tuple[str, str]  # name and where


@dataclass(frozen=True)
class Figure:
    """One figure.

    name: of its kind.  where: machine, pair of machines, or verb and scope; "" for the whole cluster.
    value: in the kind's unit.  calibration: how long the kind's fixed work took on these machines, in seconds; 0: none.
    """

    name: str
    where: str
    value: float
    calibration: float = 0.0

    @property
    def key(self) -> Key:
        """Return what the same figure of another run has, too."""
        return self.name, self.where

    @property
    def told(self) -> str:
        """Return the figure as people read it."""
        return f"{label_of(self.key)} {amount(self.name, self.value)}"


def named(text: str, value: float, calibration: float) -> Figure:
    """Return the figure that a record calls by its name and, after a space, its place."""
    name, _, where = text.partition(" ")
    return Figure(name, where, value, calibration)


def carried(figures: Iterable[Figure]) -> list[list[Any]]:
    """Return figures as a property of a check."""
    return [[f.name, f.where, rounded(f.value), rounded(f.calibration)] for f in figures]


def carried_in(properties: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the figures of a check's properties; what is none is passed over."""
    rows = properties.get(PROPERTY, ())
    return tuple(Figure(*row) for row in rows if _is_figure(row)) if isinstance(rows, list | tuple) else ()


def _is_figure(row: object) -> bool:
    if not isinstance(row, list | tuple) or [type(value) for value in row[:2]] != [str, str] or len(row) != 4:
        return False
    return all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) and n >= 0 for n in row[2:])


def took(figure: Figure) -> float:
    """Return what a figure took: an amount of which less is better, whichever way the kind counts."""
    kind = KINDS.get(figure.name)
    value = max(NOTHING, figure.value)
    return 1.0 / value if kind is not None and kind.higher else value


def calibrated(figure: Figure) -> float:
    """Return what a figure took, in terms of the calibration beside it; without one, just what it took."""
    return took(figure) / figure.calibration if figure.calibration > 0 else took(figure)


def over_slo(figure: Figure) -> float | None:
    """Return the SLO that a figure exceeds; None where it exceeds none."""
    most = slo_of(*figure.key)
    return most if most is not None and figure.value > most else None


def label_of(key: Key) -> str:
    """Return what a figure is called, and of what it is."""
    name, where = key
    kind = KINDS.get(name)
    return " ".join(part for part in (kind.label if kind is not None else name, f"({where})" if where else "") if part)


def amount(name: str, value: float) -> str:
    """Return a value with its unit, as people read it."""
    unit = KINDS[name].unit if name in KINDS else ""
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} {unit}".strip() if value < 1000 else f"{value:.0f} {unit}".strip()


def rounded(value: float) -> float:
    """Return a number with as many digits as are kept."""
    return float(f"{value:.{DIGITS}g}")


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


History = Sequence[Mapping[Key, Figure]]  # of each run the figures by key; oldest first


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


def by_key(figures: Iterable[Figure]) -> dict[Key, Figure]:
    """Return figures by key; of several the last."""
    return {figure.key: figure for figure in figures}
