"""What failed in a record, as things that can be recognised again; and which of them fail alike across cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from harness.history.record import Record, telling
from harness.report.analysis.nights import Night

MARKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?:sha256:)?[0-9a-f]{32,128}\b"), "<id>"),
    (re.compile(r"\bk\d{3,5}-[a-z0-9-]*-[0-9a-f]{6}\b"), "<cell>"),
    (re.compile(r"(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b|::[0-9a-fA-F]{1,4}\b"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?\b"), "<address>"),
    (re.compile(r"(?<![\w.<])/(?:[\w.@+-]+/)*[\w.@+-]+"), "<path>"),
    (re.compile(r"\b(?:cp|w|worker|etcd|lb|node|control-plane)-\d+\b"), "<machine>"),
    (re.compile(r"(?<=[a-z0-9])-(?=[a-z0-9]*\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}(?:-[a-z0-9]{5})?\b"), "-<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,31}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


@lru_cache(maxsize=50_000)
def signature(message: str, titles: tuple[str, ...] = ()) -> str:
    """Return a message's telling line without what differs from run to run; empty for an empty message."""
    line = telling(message, titles)
    for pattern, mark in MARKS:
        line = pattern.sub(mark, line)
    return line.strip()


KNOWN_NIGHTS = 30  # for so long a failure is remembered as known


@dataclass(frozen=True)
class Failure:
    """One failed step or check of a cell's night.

    title: the check's ("suite: name") or, of a step, its name.  signature: what equal failures share.
    """

    title: str
    check: bool
    stage: str
    blame: str
    message: str
    signature: str
    quarantine: str

    @property
    def key(self) -> tuple[str, str]:
        """Return what makes it the same failure another night."""
        return self.title, self.signature


def failures_of(record: Record) -> tuple[Failure, ...]:
    """Return the failed steps (of a step inside another only the inner one) and checks of the attempt that counts."""
    attempt = record.last_attempt
    steps = [s for s in record.steps if s.outcome == "failed" and s.attempt == attempt]
    inner = [s for s in steps if not any(o.name.startswith(f"{s.name} / ") for o in steps)]
    found = [
        Failure(s.name, False, "", s.blame, s.message, signature(s.message) or s.name, s.quarantine)
        for s in {s.name: s for s in inner}.values()
    ]
    for note in record.notes:
        if note.outcome == "failed" and note.attempt == attempt:
            found += [
                Failure(
                    title,
                    True,
                    note.stage,
                    note.blame,
                    note.message,
                    signature(note.message, (title,)) or title,
                    note.quarantine,
                )
                for title in note.checks
            ]
    return tuple(found)


@dataclass(frozen=True)
class FailureCluster:
    """Failures with the same signature.

    cells: how many nights of which cell had it.  now: the cells that had it in the last night.
    first, last: nights.
    """

    signature: str
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

    def known(self, cell: str, failure: Failure, night: int) -> bool:
        """Tell whether the same failed in the same cell in a night not long before."""
        return any(night - KNOWN_NIGHTS <= n < night for n in self._seen.get((cell, *failure.key), ()))

    def add(self, cell: str, night: int, failures: tuple[Failure, ...]) -> None:
        """Write a cell's night down; nights come in order."""
        self.by_cell.setdefault(cell, {})[night] = failures
        for failure in failures:
            nights = self._seen.setdefault((cell, *failure.key), [])
            if not nights or nights[-1] != night:
                nights.append(night)


def failure_log_of(nights: Sequence[Night]) -> FailureLog:
    """Return the failures of all nights."""
    log = FailureLog()
    for number, night in enumerate(nights):
        for cell, record in night.cells.items():
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
    clusters = [_cluster(name, found, last_night) for name, found in groups.items()]
    return tuple(sorted(clusters, key=lambda c: (-len(c.now), -c.last, -len(c.cells), -c.runs, c.signature)))


def _cluster(name: str, found: Sequence[tuple[str, int, Failure]], last_night: int) -> FailureCluster:
    seen = dict.fromkeys((cell, night) for cell, night, _ in found)
    last = max(night for _, night, _ in found)
    return FailureCluster(
        signature=name,
        message=[f.message for _, night, f in found if night == last][-1],
        blames=dict(Counter(f.blame for *_, f in found).most_common()),
        titles=tuple(dict.fromkeys(f.title for *_, f in found)),
        cells=dict(Counter(cell for cell, _ in seen)),
        now=tuple(cell for cell, night in seen if night == last_night),
        runs=len(seen),
        first=min(night for _, night, _ in found),
        last=last,
    )
