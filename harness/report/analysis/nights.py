"""Records as nights: all that one pipeline (or one run at a desk) ran, a record for each cell.

A night is what the report has a column for, whatever the hour. Of several records of a cell in one night (a job that
was retried, a rerun of what failed) the latest counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from harness.history.record import Record, RunOrigin

OUTAGE_SHARE = 0.5  # of a night's cells; from here on the infrastructure is what failed
OUTAGE_CELLS = 4  # of fewer cells nothing is said
LATE = 1.5  # periods after which a night is missing
MOST_MISSING = 400  # nights that are named


@dataclass(frozen=True)
class Night:
    """One night: its key (pipeline or run), when it began and ended (RFC 3339), its records by cell."""

    key: str
    started: str
    finished: str
    where: RunOrigin
    run: str
    cells: Mapping[str, Record]

    @property
    def start(self) -> datetime:
        """Return when it began."""
        return datetime.fromisoformat(self.started)

    @property
    def by_hand(self) -> bool:
        """Tell whether a person ran it at a desk, and no pipeline."""
        return not self.where.pipeline

    @property
    def tier(self) -> str:
        """Return the tier of its cells, empty when they are of several."""
        tiers = {r.tier for r in self.cells.values()}
        return tiers.pop() if len(tiers) == 1 else ""

    @property
    def counts(self) -> dict[str, int]:
        """Return how many cells came to which outcome."""
        return dict(Counter(r.outcome for r in self.cells.values()))

    @property
    def outage(self) -> bool:
        """Tell whether most of the night failed by the infrastructure."""
        failed = sum(r.outcome == "failed" and r.blame == "infra" for r in self.cells.values())
        return len(self.cells) >= OUTAGE_CELLS and failed >= OUTAGE_SHARE * len(self.cells)


def key_of(record: Record) -> str:
    """Return what the records of one night have in common."""
    return record.where.pipeline or record.run


def nights_of(records: Iterable[Record]) -> tuple[Night, ...]:
    """Return the nights, oldest first."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(key_of(record), []).append(record)
    return tuple(
        sorted(
            (_night(key, records_of_night) for key, records_of_night in groups.items()),
            key=lambda n: (n.started, n.key),
        )
    )


def _night(key: str, records: Sequence[Record]) -> Night:
    first = min(records, key=lambda r: r.started)
    return Night(
        key=key,
        started=first.started,
        finished=max(r.finished for r in records),
        where=first.where,
        run=first.run if len({r.run for r in records}) == 1 else "",
        cells={r.cell: r for r in sorted(records, key=_later)},
    )


def _later(record: Record) -> tuple[int, int, str, str]:
    """Return the key by which a cell's records of one night are in order: clocks of runners may differ.

    GitLab numbers its jobs, and a run its attempts.
    """
    job = int(record.where.job) if record.where.job.isdecimal() else 0
    return job, record.last_attempt, record.started, record.finished


@dataclass(frozen=True)
class Freshness:
    """When the last night began, and which nights there should have been.

    hours_ago, every_hours, stale_after_hours: hours; None when there is no night, or no period is set.
    """

    last: str | None
    hours_ago: float | None
    every_hours: float | None
    stale_after_hours: float | None
    stale: bool
    missing: tuple[date, ...]


def freshness(nights: Sequence[Night], *, every_hours: float | None, now: datetime) -> Freshness:
    """Return how fresh the nights are and which are missing between the first and now.

    Runs by hand are no nights of a schedule: where there are no others, none is due, and beside others they end no gap.
    A schedule whose owner left makes no pipeline and tells nobody: that it did not run is seen here or nowhere.
    """
    if nights and all(night.by_hand for night in nights):
        every_hours = None
    elif any(night.by_hand for night in nights):
        nights = [night for night in nights if not night.by_hand]
    late = every_hours * LATE if every_hours is not None else None
    if not nights:
        return Freshness(None, None, every_hours, late, late is not None, ())
    last = nights[-1].start
    ago = max(0.0, (now - last).total_seconds() / 3600)
    missing = _missing([n.start for n in nights], every_hours, now) if every_hours is not None else ()
    return Freshness(nights[-1].started, round(ago, 1), every_hours, late, late is not None and ago > late, missing)


def _missing(starts: Sequence[datetime], every_hours: float, now: datetime) -> tuple[date, ...]:
    period = timedelta(hours=every_hours)
    days: list[date] = []
    for before, after in zip(starts, [*starts[1:], now], strict=True):
        expected = before + period
        while after - expected > period * (LATE - 1) and len(days) < MOST_MISSING:
            days.append(expected.date())
            expected += period
    return tuple(days)
