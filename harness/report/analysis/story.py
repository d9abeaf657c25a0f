"""One cell over all nights: what failed, since when, whether by chance, and how long its steps took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.history.record import Record
from harness.report.analysis.checks import Checks, checks_of
from harness.report.analysis.failures import Failure, FailureLog
from harness.report.analysis.figures import FigureHistory, figures_of
from harness.report.analysis.flaky import Rate, flaky
from harness.report.analysis.nights import Night
from harness.report.analysis.planned import Planned
from harness.report.analysis.streaks import FAILURES, Habit, Range, fixed, habit, series_of, since, streak
from harness.report.analysis.trend import Trend, trend

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
    names = dict.fromkeys([*longest, *(name for found in took.values() for name in found)])
    passed = {night for night, record in records if record.outcome == "passed"}
    return tuple(
        StepStory(
            name,
            tuple(took[n].get(name) if n in took else None for n in range(nights)),
            trend([found[name] for night, found in took.items() if name in found and night in passed]),
        )
        for name in names
    )


def durations(record: Record) -> dict[str, float]:
    """Return the seconds of a record's outer steps and of its checks together, of the attempt that counts."""
    found: dict[str, float] = {}
    for step in record.steps:
        if step.top and step.attempt == record.last_attempt and step.name != WAITING:
            found[step.name] = found.get(step.name, 0.0) + step.seconds
    rest = record.seconds - sum(found.values())
    if rest > LEAST_REST and record.counts:
        found[CHECKS] = rest
    return {name: round(seconds, 1) for name, seconds in found.items()}


def slower_of(cells: Sequence[CellStory], nights: int) -> tuple[Slower, ...]:
    """Return what is slower than usual, of the cells that the last night has; the worst first."""
    found = [
        Slower(cell.id, name, trend)
        for cell in cells
        if cell.last_night == nights - 1
        for name, trend in (("", cell.trend), *((s.name, s.trend) for s in cell.steps))
        if trend is not None and trend.notable
    ]
    return tuple(sorted(found, key=lambda s: -s.trend.ratio))
