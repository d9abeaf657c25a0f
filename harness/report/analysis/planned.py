"""What should run: the plan's cells, how often, and what is in quarantine. And what of it did not, or did in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from fnmatch import fnmatchcase
from itertools import combinations, product

from harness.history.record import Record
from harness.plan.goal import Goal
from harness.report.analysis.failures import FailureLog
from harness.report.analysis.nights import Night
from harness.report.analysis.series import FAILURES, RECENT
from harness.spec.models import QuarantineEntry, Symptom
from harness.spec.rules import Rulebook

RAN = ("passed", *FAILURES)
WEEK_DAYS = 7
Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Planned:
    """The plan of a tier.

    cells: values by axis of each planned cell, by id; None when the plan is not known.
    axes: values of each axis, in the matrix's order.  together: groups of them that some tier covers together.
    every_hours: how often the tier runs; None: when somebody wants.
    goal: what cells there can be; None where that is not known.  symptoms: what is looked for in failed cells.
    """

    cells: Mapping[str, Mapping[str, str]] | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    every_hours: float | None = None
    quarantine: tuple[QuarantineEntry, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    goal: Goal | None = None
    symptoms: tuple[Symptom, ...] = ()

    def possible(self) -> frozenset[Pair] | None:
        """Return the pairs of values that cells can have, each in the order of the axes' names; None if not known."""
        if self.goal is None:
            return None
        book, domains = Rulebook.of(self.goal.rules), self.goal.values
        pairs: set[Pair] = set()
        for first, second in combinations(sorted(domains), 2):
            for v, w in product(domains[first], domains[second]):
                if ((first, v), (second, w)) not in pairs:  # no cell that was found before has both
                    row = book.solve({**domains, first: (v,), second: (w,)}) or {}
                    pairs.update(combinations(sorted(row.items()), 2))
        return frozenset(pairs)


@dataclass(frozen=True)
class NotRun:
    """A planned cell that the last night has no word of; `last`: the night of its last record, -1 without any."""

    cell: str
    last: int
    why: str


@dataclass(frozen=True)
class Counted:
    """How many were planned, ran to a judgement, and passed."""

    planned: int
    ran: int
    passed: int


@dataclass(frozen=True)
class Coverage:
    """How much of the plan the last night saw: cells, pairs of values, and cells by value."""

    cells: Counted
    pairs: Counted
    values: Mapping[str, Mapping[str, Counted]]


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


@dataclass(frozen=True)
class Quarantined:
    """An entry of matrix/quarantine.yml, and what it excuses.

    days_left: until it ends, negative when it has.  failed, ran: of the last nights of its cells.
    stale: nothing that it excuses failed of late: it could go.
    """

    entry: QuarantineEntry
    cells: tuple[str, ...]
    days_left: int
    failed: int
    ran: int
    stale: bool


def not_run(nights: Sequence[Night], planned: Planned) -> tuple[NotRun, ...]:
    """Return the planned cells without a judgement in the last night, those unseen for longest first."""
    if planned.cells is None or not nights:
        return ()
    last: dict[str, int] = {}
    for number, night in enumerate(nights):
        last.update(dict.fromkeys(night.cells, number))
    cells = [
        _not_run(cell, last.get(cell, -1), nights) for cell in planned.cells if not _ran(nights[-1].cells.get(cell))
    ]
    return tuple(sorted(cells, key=lambda n: (n.last, n.cell)))


def _not_run(cell: str, last: int, nights: Sequence[Night]) -> NotRun:
    if last < 0:
        return NotRun(cell, last, "never recorded")
    gap = len(nights) - 1 - last
    if gap == 0:
        return NotRun(cell, last, nights[-1].cells[cell].outcome)
    return NotRun(cell, last, f"no record for {gap} night{'s' if gap > 1 else ''}")


def _ran(record: Record | None) -> bool:
    return record is not None and record.outcome in RAN


def coverage(night: Night | None, planned: Planned) -> Coverage:
    """Return what of the plan the night saw; without a plan, of what it saw itself."""
    records = night.cells if night is not None else {}
    cells = planned.cells if planned.cells is not None else {cell: r.axes for cell, r in records.items()}
    ran = {cell for cell in cells if _ran(records.get(cell))}
    passed = {cell for cell in ran if records[cell].outcome == "passed"}
    pairs = [_pairs(cells, chosen) for chosen in (cells, ran, passed)]
    values = {
        axis: {
            v: Counted(*(sum(cells[c].get(axis) == v for c in chosen) for chosen in (cells, ran, passed)))
            for v in known
        }
        for axis, known in planned.axes.items()
    }
    used = {axis: {v: c for v, c in of_axis.items() if c.planned} for axis, of_axis in values.items()}
    return Coverage(Counted(len(cells), len(ran), len(passed)), Counted(*map(len, pairs)), used)


def _pairs(cells: Mapping[str, Mapping[str, str]], chosen: Mapping[str, object] | set[str]) -> set[Pair]:
    return {pair for cell in chosen for pair in combinations(sorted(cells[cell].items()), 2)}


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


def quarantined(
    nights: Sequence[Night], log: FailureLog, entries: Sequence[QuarantineEntry], today: date
) -> tuple[Quarantined, ...]:
    """Return the entries with what they excuse, those that end first before."""
    cells = {cell: record.axes for night in nights for cell, record in night.cells.items()}
    excused = [_entry(e, [c for c, axes in cells.items() if e.means(c, axes)], nights, log, today) for e in entries]
    return tuple(sorted(excused, key=lambda q: (q.days_left, q.entry.cells)))


def _entry(
    entry: QuarantineEntry, cells: Sequence[str], nights: Sequence[Night], log: FailureLog, today: date
) -> Quarantined:
    first = max(0, len(nights) - RECENT)
    ran = failed = 0
    for cell in cells:
        ran += sum(_ran(night.cells.get(cell)) for night in nights[first:])
        failures = log.by_cell.get(cell, {})
        failed += sum(
            any(entry.check is None or (f.check and fnmatchcase(f.title, entry.check)) for f in symptoms)
            for night, symptoms in failures.items()
            if night >= first
        )
    stale = not cells or (failed == 0 and ran >= RECENT)
    return Quarantined(entry, tuple(cells), (entry.until - today).days, failed, ran, stale)
