"""One cell over all nights: what failed, since when, whether by chance, and how long its steps took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from harness.history.record import Record
from harness.report.analysis.checks import Checks, checks_of
from harness.report.analysis.failures import Failure, FailureLog
from harness.report.analysis.nights import Night
from harness.report.analysis.planned import Planned
from harness.report.analysis.series import FAILURES, Habit, Range, Rate, fixed, flaky, habit, series_of, since, streak
from harness.validate.performance.comparison import Comparison, compare
from harness.validate.performance.figures import KINDS, Figure, Key, by_key, named, took

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


@dataclass(frozen=True)
class FigureHistory:
    """What a cell's figures were.

    series: by kind, the worst of all places after the last phase by night; None: not measured, or of another phase.
    compared: the last record against those before, by phase.
    """

    series: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    compared: Mapping[str, Comparison] = field(default_factory=dict)


def figures_of(records: Sequence[tuple[int, Record]], nights: int) -> FigureHistory:
    """Return the figures of a cell's records, each with its night, oldest first."""
    measured = [(night, record) for night, record in records if record.figures]
    if not measured:
        return FigureHistory()
    last = measured[-1][1]
    stage = [*last.figures][-1]
    by_night = {night: of_record(record, stage) for night, record in measured if stage in record.figures}
    kinds = dict.fromkeys(name for figures in by_night.values() for name, _ in figures)
    ordered = [name for name in KINDS if name in kinds] + [name for name in kinds if name not in KINDS]
    return FigureHistory(
        {name: tuple(_worst(by_night.get(night, {}), name) for night in range(nights)) for name in ordered},
        {stage_name: _compared([record for _, record in measured], stage_name) for stage_name in last.figures},
    )


def of_record(record: Record, stage: str) -> dict[Key, Figure]:
    """Return what a record says of a phase."""
    return by_key(named(text, *amounts) for text, amounts in record.figures[stage].items())


def _worst(figures: Mapping[Key, Figure], name: str) -> float | None:
    places = [figure for (kind, _), figure in figures.items() if kind == name]
    return max(places, key=took).value if places else None


def _compared(records: Sequence[Record], stage: str) -> Comparison:
    *past, now = [of_record(record, stage) for record in records if stage in record.figures]
    return compare(now, past)


CHECKS = "checks"  # what a cell's time is beside its steps
WAITING = "admission"
LEAST_REST = 0.5  # seconds: less is rounding


@dataclass(frozen=True)
class StepStory:
    """One outer step of a cell: seconds by night (None: it did not end well, or did not run), and the trend."""

    name: str
    seconds: tuple[float | None, ...]
    trend: Trend | None


@dataclass(frozen=True)
class CellStory:
    """One cell over all nights.

    records: by night.  news: "new", "known", "fixed" or "".  new: the failures of its last record that are new.
    """

    id: str
    axes: Mapping[str, str]
    planned: bool
    records: Mapping[int, Record]
    failures: Mapping[int, tuple[Failure, ...]]
    new: frozenset[tuple[str, str]]
    habit: Habit
    news: str
    streak: int
    since: Range | None
    flaky: Rate
    steps: tuple[StepStory, ...]
    trend: Trend | None
    checks: Checks
    figures: FigureHistory

    @property
    def last_night(self) -> int:
        """Return the night of the last record, -1 without any."""
        return max(self.records, default=-1)

    @property
    def last(self) -> Record | None:
        """Return the last record."""
        return self.records[self.last_night] if self.records else None

    @property
    def failing(self) -> bool:
        """Tell whether its last record failed, in quarantine or not."""
        return self.last is not None and self.last.outcome in FAILURES


@dataclass(frozen=True)
class Slower:
    """A step ("" is the whole cell) that takes longer than usual by more than chance."""

    cell: str
    step: str
    trend: Trend


def cell_story(cell: str, nights: Sequence[Night], log: FailureLog, planned: Planned) -> CellStory:
    records = [(number, night.cells[cell]) for number, night in enumerate(nights) if cell in night.cells]
    by_night = dict(records)
    failures = log.by_cell.get(cell, {})
    last_night, last = records[-1] if records else (-1, None)
    current = failures.get(last_night, ())
    new = frozenset(f.key for f in current if not log.known(cell, f, last_night))
    series = series_of(records)
    failing = last is not None and last.outcome in FAILURES
    passed = [(n, r) for n, r in records if r.outcome == "passed"]
    return CellStory(
        id=cell,
        axes=(planned.cells or {}).get(cell) or (last.axes if last is not None else {}),
        planned=planned.cells is None or cell in planned.cells,
        records=by_night,
        failures=failures,
        new=new,
        habit=habit(series),
        news=("new" if new or not current else "known") if failing else "fixed" if fixed(series) else "",
        streak=streak(series),
        since=since(series),
        flaky=flaky(series, retried={n for n, r in passed if _retried(r)}),
        steps=_steps(records, len(nights)),
        trend=trend([r.seconds for _, r in passed if r.seconds]),
        checks=checks_of(records, failures, len(nights), frozenset(f.title for f in current if f.key in new)),
        figures=figures_of(records, len(nights)),
    )


def _retried(record: Record) -> bool:
    """Tell whether an attempt before the one that passed failed by the code."""
    return any(a.outcome == "failed" and a.blame not in ("infra", "") for a in record.attempts[:-1])


def _steps(records: Sequence[tuple[int, Record]], nights: int) -> tuple[StepStory, ...]:
    """Return the outer steps in the order of the last record that has most of them, the checks among them."""
    took = {night: durations(record) for night, record in records}
    longest = max(reversed(list(took.values())), key=len, default={})
    names = dict.fromkeys([*longest, *(name for seconds_by_step in took.values() for name in seconds_by_step)])
    passed = {night for night, record in records if record.outcome == "passed"}
    return tuple(
        StepStory(
            name,
            tuple(took[n].get(name) if n in took else None for n in range(nights)),
            trend(
                [
                    seconds_by_step[name]
                    for night, seconds_by_step in took.items()
                    if name in seconds_by_step and night in passed
                ]
            ),
        )
        for name in names
    )


def durations(record: Record) -> dict[str, float]:
    """Return the seconds of a record's outer steps and of its checks together, of the attempt that counts."""
    seconds_by_step: dict[str, float] = {}
    for step in record.steps:
        if step.top and step.attempt == record.last_attempt and step.name != WAITING:
            seconds_by_step[step.name] = seconds_by_step.get(step.name, 0.0) + step.seconds
    rest = record.seconds - sum(seconds_by_step.values())
    if rest > LEAST_REST and record.counts:
        seconds_by_step[CHECKS] = rest
    return {name: round(seconds, 1) for name, seconds in seconds_by_step.items()}


def slower_of(cells: Sequence[CellStory], nights: int) -> tuple[Slower, ...]:
    """Return what is slower than usual, of the cells that the last night has; the worst first."""
    slower_steps = [
        Slower(cell.id, name, trend)
        for cell in cells
        if cell.last_night == nights - 1
        for name, trend in (("", cell.trend), *((s.name, s.trend) for s in cell.steps))
        if trend is not None and trend.notable
    ]
    return tuple(sorted(slower_steps, key=lambda s: -s.trend.ratio))
