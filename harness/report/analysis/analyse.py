"""The whole judgement: nights, cells, clusters, what did not run, what is slower; everything that a report says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from harness.history.record import Record
from harness.report.analysis import planned as plans
from harness.report.analysis.checks import Checks, checks_of
from harness.report.analysis.failures import Failure, FailureCluster, FailureLog, clusters_of, failure_log_of
from harness.report.analysis.flaky import Rate, flaky
from harness.report.analysis.nights import Freshness, Night, freshness, key_of, nights_of
from harness.report.analysis.planned import Coverage, NotRun, Planned, Quarantined
from harness.report.analysis.streaks import FAILURES, Habit, Range, fixed, habit, series_of, since, streak
from harness.report.analysis.trend import Trend, trend

CHECKS = "checks"  # what a cell's time is beside its steps
WAITING = "admission"
SCHEDULE = "schedule"  # CI_PIPELINE_SOURCE
LEAST_REST = 0.5  # seconds: less is rounding


@dataclass(frozen=True)
class RecordFilter:
    """Which records are looked at.

    branch, tier, infra: only those of it; None: of all.  days: back from now; None: all.
    focus: a pipeline (or run) that is looked at as the last night, whatever its branch and tier; nothing later is.
    scheduled: whatever a schedule's pipeline ran is of the tier: a smoke cell may have kept the night from coming.
    merge_requests: a merge request's runs are of the branch that it comes from, which may be that of a fork.
    """

    tier: str | None = None
    branch: str | None = None
    infra: str | None = None
    days: float | None = None
    focus: str | None = None
    scheduled: bool = False
    merge_requests: bool = True


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


@dataclass(frozen=True)
class Analysis:
    """Everything that a report says."""

    now: datetime
    selection: RecordFilter
    planned: Planned
    nights: tuple[Night, ...]
    cells: tuple[CellStory, ...]
    clusters: tuple[FailureCluster, ...]
    freshness: Freshness
    not_run: tuple[NotRun, ...]
    slower: tuple[Slower, ...]
    coverage: Coverage
    quarantine: tuple[Quarantined, ...]
    known: Mapping[tuple[str, int, tuple[str, str]], bool] = field(default_factory=dict)

    @property
    def last(self) -> Night | None:
        """Return the last night."""
        return self.nights[-1] if self.nights else None

    @property
    def tonight(self) -> tuple[CellStory, ...]:
        """Return the cells that the last night has a record of."""
        return tuple(c for c in self.cells if c.last_night == len(self.nights) - 1 and c.records)


def analyse(records: Iterable[Record], planned: Planned, selection: RecordFilter, now: datetime) -> Analysis:
    """Return the judgement on a history.

    Args:
        now: the moment from which "ago" is counted.
    """
    nights = nights_of(selected(records, selection, now))
    log = failure_log_of(nights)
    cells = tuple(_cell(cell, nights, log, planned) for cell in _cell_ids(nights, planned))
    last = nights[-1] if nights else None
    return Analysis(
        now=now,
        selection=selection,
        planned=planned,
        nights=nights,
        cells=cells,
        clusters=clusters_of(log, len(nights) - 1),
        freshness=freshness(nights, every_hours=planned.every_hours, now=now),
        not_run=plans.not_run(nights, planned),
        slower=_slower(cells, len(nights)),
        coverage=plans.coverage(last, planned),
        quarantine=plans.quarantined(nights, log, planned.quarantine, now.date()),
        known={
            (cell, night, f.key): log.known(cell, f, night)
            for cell, by_night in log.by_cell.items()
            for night, found in by_night.items()
            for f in found
        },
    )


def selected(records: Iterable[Record], selection: RecordFilter, now: datetime) -> list[Record]:
    """Return the records that are looked at."""
    found = [r for r in records if _wanted(r, selection, now) or key_of(r) == selection.focus]
    if selection.focus is None:
        return found
    begun = min((r.started for r in found if key_of(r) == selection.focus), default="")
    return [r for r in found if r.started < begun or key_of(r) == selection.focus]


def _wanted(record: Record, selection: RecordFilter, now: datetime) -> bool:
    tier = selection.tier in (None, record.tier) or (selection.scheduled and record.where.source == SCHEDULE)
    branch = selection.branch in (None, record.where.branch)
    if not selection.merge_requests and selection.branch is not None and record.where.merge_request:
        branch = False
    if not (tier and branch and selection.infra in (None, record.infra)):
        return False
    return selection.days is None or record.start >= now - timedelta(days=selection.days)


def _cell_ids(nights: Sequence[Night], planned: Planned) -> list[str]:
    """Return the planned cells in the plan's order, then those that only the history knows."""
    seen = sorted({cell for night in nights for cell in night.cells})
    return list(dict.fromkeys([*(planned.cells or ()), *seen]))


def _cell(cell: str, nights: Sequence[Night], log: FailureLog, planned: Planned) -> CellStory:
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


def _slower(cells: Sequence[CellStory], nights: int) -> tuple[Slower, ...]:
    """Return what is slower than usual, of the cells that the last night has; the worst first."""
    found = [
        Slower(cell.id, name, trend)
        for cell in cells
        if cell.last_night == nights - 1
        for name, trend in (("", cell.trend), *((s.name, s.trend) for s in cell.steps))
        if trend is not None and trend.notable
    ]
    return tuple(sorted(found, key=lambda s: -s.trend.ratio))
