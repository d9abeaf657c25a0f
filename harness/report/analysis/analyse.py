"""The whole judgement: nights, cells, clusters, what did not run, what is slower, how often checks fail.

How often checks fail with each value is compared with before. Fisher's exact test (Fisher 1935) says how likely so many
of the failures are in the last night if value and night have nothing to do with each other; of many such tests, those
are kept whose share of false ones is at most 1 % (Benjamini and Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import combinations
from math import comb

from harness.history.record import Record
from harness.report.analysis import planned as plans
from harness.report.analysis.checks import BAD, WINDOW
from harness.report.analysis.failures import FailureCluster, clusters_of, failure_log_of
from harness.report.analysis.nights import Freshness, Night, freshness, key_of, nights_of
from harness.report.analysis.planned import RAN, Coverage, NotRun, Pair, Planned, Quarantined
from harness.report.analysis.story import CellStory, Slower, cell_story, slower_of
from harness.report.suspects import Explained, explained, flake_rates, of_night, worth_showing
from harness.report.symptoms import idle

BEFORE_DAYS = 30
WEEK_DAYS = 7
FALSE_SHARE = 0.01
MOST_WORSE = 10
MOST_OF_CHECK = 3  # values of one check: its others mostly come along with these


@dataclass(frozen=True)
class Worse:
    """A check that fails more often with a value than before: cells that failed and were judged, then and now.

    p: how likely that is chance.  against: the tag, or "" for the last 30 days.
    """

    axis: str
    value: str
    check: str
    failed: int
    judged: int
    failed_before: int
    judged_before: int
    p: float
    against: str = ""


@dataclass(frozen=True)
class Week:
    """What the nights of the last 7 days judged: cells of different values, pairs and triples of values.

    possible: how many pairs there can be; None where that is not known.
    """

    nights: int
    cells: int
    pairs: int
    triples: int
    possible: int | None


def fisher(failed: int, judged: int, failed_before: int, judged_before: int) -> float:
    """Return how likely at least so many of all failures are among the judged ones of now, by chance alone."""
    whole, failures = judged + judged_before, failed + failed_before
    ways = comb(whole, judged)
    most = min(judged, failures)
    return sum(comb(failures, n) * comb(whole - failures, judged - n) for n in range(failed, most + 1)) / ways


def worse_of(nights: Sequence[Night], tagged: Iterable[Record] = ()) -> tuple[Worse, ...]:
    """Return what fails more often in the last night than in those of the last tag, or of the 30 days before it.

    Args:
        tagged: records of nights of tags, whatever else is looked at; the newest tag counts.
    """
    if len(nights) < 2:
        return ()
    last = nights[-1]
    of_tags = [r for r in tagged if r.where.tag and r.started < last.started]
    tag = max(of_tags, key=lambda r: r.started).where.tag if of_tags else ""
    since = last.start - timedelta(days=BEFORE_DAYS)
    before = [r for night in nights[:-1] if night.start >= since for r in night.cells.values()]
    counts = _counts(last.cells.values())
    earlier = _counts([r for r in of_tags if r.where.tag == tag] if tag else before)
    tests = sorted(
        (
            Worse(*key, *now, *earlier[key], fisher(*now, *earlier[key]), tag)
            for key, now in counts.items()
            if now[0] and earlier.get(key, (0, 0))[1]
        ),
        key=lambda test: (test.p, test.check, test.axis, test.value),
    )
    number = max(1, sum(key in earlier for key in counts))
    kept = max((n for n, test in enumerate(tests, 1) if test.p <= FALSE_SHARE * n / number), default=0)
    return tuple(_few(tests[:kept]))[:MOST_WORSE]


def _few(rates: Sequence[Worse]) -> list[Worse]:
    shown: dict[str, int] = {}
    few = []
    for rate in rates:
        shown[rate.check] = shown.get(rate.check, 0) + 1
        few += [rate] if shown[rate.check] <= MOST_OF_CHECK else []
    return few


def _counts(records: Iterable[Record]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return in how many cell runs each check failed and was judged, by axis, value and title."""
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}
    for record in records:
        letters: dict[str, set[str]] = {}
        for row in record.checks.rows:
            if row.attempt == record.last_attempt:
                for title, letter in zip(record.checks.names, row.results, strict=True):
                    letters.setdefault(title, set()).add(letter)
        for title, outcomes in letters.items():
            bad = bool(outcomes & set(BAD))
            for axis, value in record.axes.items() if bad or "p" in outcomes else ():
                failed, judged = counts.get((axis, value, title), (0, 0))
                counts[axis, value, title] = failed + bad, judged + 1
    return counts


def week_of(nights: Sequence[Night], possible: frozenset[Pair] | None) -> Week | None:
    """Return how much of the matrix the nights of the last 7 days judged; None without a night.

    Args:
        possible: the pairs of values that cells can have.
    """
    if not nights:
        return None
    since = nights[-1].start - timedelta(days=WEEK_DAYS)
    recent = [night for night in nights if night.start > since]
    rows = {tuple(sorted(r.axes.items())) for night in recent for r in night.cells.values() if r.outcome in RAN}
    pairs = {pair for row in rows for pair in combinations(row, 2)}
    triples = {triple for row in rows for triple in combinations(row, 3)}
    known = pairs if possible is None else pairs & possible
    return Week(len(recent), len(rows), len(known), len(triples), None if possible is None else len(possible))


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
