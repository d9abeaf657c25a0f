"""What failed in a record, as things that can be recognised again; and which of them fail alike across cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.check_result import REMEMBERED, signature_of_text, telling
from harness.history.record import CheckNote, Record, StepRecord
from harness.model import Outcome
from harness.report.analysis.nights import Night

KNOWN_NIGHTS = 30  # for so long a failure is remembered as known


@dataclass(frozen=True)
class Failure:
    """One failed step or check of a cell's night.

    title: the check's ("suite: name") or, of a step, its name.  headline: its cause in one line.
    signature: what equal failures share: of a check its claim and what was expected, of other text its first line.
    """

    title: str
    check: bool
    stage: str
    blame: str
    headline: str
    message: str
    signature: str
    quarantine: str

    @property
    def key(self) -> tuple[str, str]:
        """Return what makes it the same failure another night."""
        return self.title, self.signature

    @property
    def cause(self) -> tuple[str, ...]:
        """Return what failures of one cause share within a night, whatever failed by it."""
        return self.blame, self.quarantine, signature_of_text(self.headline or self.title)


def failures_of(record: Record) -> tuple[Failure, ...]:
    """Return the failed steps (of a step inside another only the inner one) and checks of the attempt that counts."""
    attempt = record.last_attempt
    steps = [s for s in record.steps if s.outcome == Outcome.FAILED and s.attempt == attempt]
    inner = [s for s in steps if not any(o.name.startswith(f"{s.name} / ") for o in steps)]
    failures = [_of_step(step) for step in {s.name: s for s in inner}.values()]
    for note in record.notes:
        if note.outcome is Outcome.FAILED and note.attempt == attempt:
            failures += [_of_check(title, note) for title in note.checks]
    return tuple(failures)


def _of_step(step: StepRecord) -> Failure:
    headline = telling(step.message)
    signature = signature_of_text(telling(step.message, most=REMEMBERED)) or step.name
    return Failure(step.name, False, "", step.blame, headline, step.message, signature, step.quarantine)


def _of_check(title: str, note: CheckNote) -> Failure:
    signature = note.signature or signature_of_text(telling(note.message, (title,), most=REMEMBERED)) or title
    headline = note.headline or telling(note.message, (title,))
    return Failure(title, True, note.stage, note.blame, headline, note.message, signature, note.quarantine)


@dataclass(frozen=True)
class FailureCluster:
    """Failures with the same signature.

    cells: how many nights of which cell had it.  now: the cells that had it in the last night.
    first, last: nights.
    """

    signature: str
    headline: str
    message: str
    blames: Mapping[str, int]
    titles: tuple[str, ...]
    cells: Mapping[str, int]
    now: tuple[str, ...]
    runs: int
    first: int
    last: int


@dataclass
class FailureLog:
    """Every failure of every night, by cell; and when each was seen."""

    by_cell: dict[str, dict[int, tuple[Failure, ...]]] = field(default_factory=dict)
    _seen: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    _first: dict[str, int] = field(default_factory=dict)

    def known(self, cell: str, failure: Failure, night: int) -> bool:
        """Tell whether the same failed in a night not long before: in the same cell, or anywhere if it is a new one."""
        of = cell if self._first.get(cell, night) < night else ""
        return any(night - KNOWN_NIGHTS <= n < night for n in self._seen.get((of, *failure.key), ()))

    def ran(self, cell: str, night: int) -> None:
        """Write down that a cell has a record in a night; nights come in order."""
        self._first.setdefault(cell, night)

    def add(self, cell: str, night: int, failures: tuple[Failure, ...]) -> None:
        """Write a cell's night down; nights come in order."""
        self.by_cell.setdefault(cell, {})[night] = failures
        for failure in failures:
            for of in (cell, ""):
                nights = self._seen.setdefault((of, *failure.key), [])
                if not nights or nights[-1] != night:
                    nights.append(night)


def failure_log_of(nights: Sequence[Night]) -> FailureLog:
    """Return the failures of all nights."""
    log = FailureLog()
    for number, night in enumerate(nights):
        for cell, record in night.cells.items():
            log.ran(cell, number)
            failures = failures_of(record)
            if failures:
                log.add(cell, number, failures)
    return log


def clusters_of(log: FailureLog, last_night: int) -> tuple[FailureCluster, ...]:
    """Return the groups of equal failures: those of the last night first, then by how many cells and nights."""
    groups: dict[str, list[tuple[str, int, Failure]]] = {}
    for cell, nights in log.by_cell.items():
        for night, failures in nights.items():
            for failure in failures:
                groups.setdefault(failure.signature, []).append((cell, night, failure))
    clusters = [_cluster(name, occurrences, last_night) for name, occurrences in groups.items()]
    return tuple(sorted(clusters, key=lambda c: (-len(c.now), -c.last, -len(c.cells), -c.runs, c.signature)))


def _cluster(name: str, occurrences: Sequence[tuple[str, int, Failure]], last_night: int) -> FailureCluster:
    runs = dict.fromkeys((cell, night) for cell, night, _ in occurrences)
    last = max(night for _, night, _ in occurrences)
    latest = [failure for _, night, failure in occurrences if night == last][-1]
    return FailureCluster(
        signature=name,
        headline=latest.headline,
        message=latest.message,
        blames=dict(Counter(f.blame for *_, f in occurrences).most_common()),
        titles=tuple(dict.fromkeys(f.title for *_, f in occurrences)),
        cells=dict(Counter(cell for cell, _ in runs)),
        now=tuple(cell for cell, night in runs if night == last_night),
        runs=len(runs),
        first=min(night for _, night, _ in occurrences),
        last=last,
    )
