"""The whole judgement on a history: nights, cells, clusters of failures, what did not run, what is slower or worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from harness.history.record import Record
from harness.report.analysis import planned as plans
from harness.report.analysis.failures import FailureCluster, clusters_of, failure_log_of
from harness.report.analysis.nights import Freshness, Night, freshness, key_of, nights_of
from harness.report.analysis.planned import Coverage, NotRun, Planned, Quarantined, Week, week_of
from harness.report.analysis.regressions import Worse, worse_of
from harness.report.analysis.series import WINDOW
from harness.report.analysis.story import CellStory, Slower, cell_story, slower_of
from harness.report.suspects import Explained, explained, flake_rates, of_night, worth_showing
from harness.report.symptoms import idle

SCHEDULE = "schedule"  # CI_PIPELINE_SOURCE


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
class Analysis:
    """Everything that a report says.

    suspects: what may explain the failures of the last night.
    """

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
    worse: tuple[Worse, ...] = ()
    week: Week | None = None
    idle_symptoms: tuple[str, ...] = ()
    suspects: tuple[Explained, ...] = ()
    known: Mapping[tuple[str, int, tuple[str, str]], bool] = field(default_factory=dict)

    @property
    def last(self) -> Night | None:
        """Return the last night."""
        return self.nights[-1] if self.nights else None

    @property
    def unit(self) -> str:
        """Return what the nights are called: a run by hand is none."""
        return "run" if any(night.by_hand for night in self.nights) else "night"

    @property
    def tonight(self) -> tuple[CellStory, ...]:
        """Return the cells that the last night has a record of."""
        return tuple(c for c in self.cells if c.last_night == len(self.nights) - 1 and c.records)


def analyse(records: Iterable[Record], planned: Planned, selection: RecordFilter, now: datetime) -> Analysis:
    """Return the judgement on a history; `now` is the moment from which "ago" is counted."""
    records = tuple(records)
    nights = nights_of(selected(records, selection, now))
    log = failure_log_of(nights)
    cells_of_nights = sorted(
        {cell for night in nights for cell in night.cells}
    )  # those that only the history knows come last
    ids = dict.fromkeys([*(planned.cells or ()), *cells_of_nights])
    cells = tuple(cell_story(cell, nights, log, planned) for cell in ids)
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
        slower=slower_of(cells, len(nights)),
        coverage=plans.coverage(last, planned),
        quarantine=plans.quarantined(nights, log, planned.quarantine, now.date()),
        worse=worse_of(nights, (r for r in records if selection.infra in (None, r.infra))),
        week=week_of(nights, planned.possible()),
        idle_symptoms=_idle(nights, planned),
        suspects=_suspects(nights, planned),
        known={
            (cell, night, f.key): log.known(cell, f, night)
            for cell, by_night in log.by_cell.items()
            for night, symptoms in by_night.items()
            for f in symptoms
        },
    )


def _suspects(nights: tuple[Night, ...], planned: Planned) -> tuple[Explained, ...]:
    if not nights:
        return ()
    rates = flake_rates(nights[:-1][-WINDOW:])
    last_night = of_night(nights[-1])
    return tuple(worth_showing(explained(last_night, together=planned.together, flakes=rates, goal=planned.goal)))


def _idle(nights: tuple[Night, ...], planned: Planned) -> tuple[str, ...]:
    names = [{name for record in night.cells.values() for name in record.symptoms} for night in nights]
    return tuple(idle(planned.symptoms, names))


def selected(records: Iterable[Record], selection: RecordFilter, now: datetime) -> list[Record]:
    """Return the records that are looked at."""
    chosen = [r for r in records if _wanted(r, selection, now) or key_of(r) == selection.focus]
    if selection.focus is None:
        return chosen
    begun = min((r.started for r in chosen if key_of(r) == selection.focus), default="")
    return [r for r in chosen if r.started < begun or key_of(r) == selection.focus]


def _wanted(record: Record, selection: RecordFilter, now: datetime) -> bool:
    tier = selection.tier in (None, record.tier) or (selection.scheduled and record.where.source == SCHEDULE)
    branch = selection.branch in (None, record.where.branch)
    if not selection.merge_requests and selection.branch is not None and record.where.merge_request:
        branch = False
    if not (tier and branch and selection.infra in (None, record.infra)):
        return False
    return selection.days is None or record.start >= now - timedelta(days=selection.days)
