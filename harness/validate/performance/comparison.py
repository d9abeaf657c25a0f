"""The figures of a run against those of the runs before: what is slower, what is over its SLO, what cannot be said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.validate.performance.figures import (
    Figure,
    Key,
    amount,
    calibrated,
    label_of,
    over_slo,
    took,
)
from harness.validate.performance.noise import FEWEST, NOTICED, NOW, PAST, Band, band, slower

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
        parts = [f"slower: {one.told}" for one in self.slower]
        parts += [f"over the SLO of {amount(one.name, most)}: {one.told}" for one, most in self.over]
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
    found = [slow for key in enough if (slow := _slow(enough[key], len(enough), *usual[key])) is not None]
    over = [(figure, most) for figure in now.values() if (most := over_slo(figure)) is not None]
    return Comparison(
        slower=tuple(sorted(found, key=lambda slow: -slow.ratio)),
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
    plain = band([took(one) for one in before], together)
    assert plain is not None  # noqa: S101 - there are enough
    if not all(one.calibration > 0 for one in figures):
        return plain, False
    steady = band([calibrated(one) for one in before], together)
    assert steady is not None  # noqa: S101 - there are enough
    return (steady, True) if steady.noise < plain.noise else (plain, False)


def _slow(figures: Sequence[Figure], together: int, usual: Band, by_calibration: bool) -> SlowFigure | None:
    """Return how slow a figure is; None where it is not slower by more than its noise, or its machines are."""
    plain, steady = [took(one) for one in figures], [calibrated(one) for one in figures]
    found = slower(steady if by_calibration else plain, together)
    if found is None:
        return None
    if not by_calibration and min(_ratios(steady)) <= NOTICED and figures[-1].calibration > 0:
        return None  # the machines took longer for their fixed work, too, and that is a figure of its own
    value = sorted(one.value for one in figures[:-NOW][-PAST:])
    middle = value[len(value) // 2]
    last = sorted(_ratios(plain))[NOW // 2]
    return SlowFigure(figures[-1], found.ratio, last, usual, middle, by_calibration)


def _ratios(amounts: Sequence[float]) -> list[float]:
    before = sorted(amounts[:-NOW][-PAST:])
    return [amount_ / before[len(before) // 2] for amount_ in amounts[-NOW:]]


def by_key(figures: Iterable[Figure]) -> dict[Key, Figure]:
    """Return figures by key; of several the last."""
    return {figure.key: figure for figure in figures}
