"""What the runs that share an infra cluster have written down: who lives, what is reserved, who waits for how much.

Pure values and their JSON, which stands in an annotation of one Lease. The Lease is harness/schedule/ledger.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from harness.errors import InfraError
from harness.schedule.demand import Demand, PodRequest

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """Room that a run has or wants for one of its cells; `holder` is the process that answers for it."""

    holder: str
    run: str
    cell: str
    demand: Demand

    @property
    def key(self) -> tuple[str, str]:
        """Return what an entry is found by."""
        return self.run, self.cell


@dataclass(frozen=True)
class Book:
    """One state of the book.

    beats: each holder's counter; it goes up whenever the holder writes, and never starts anew.
    reservations: room for machines that do not count by themselves yet.
    claims: cells that have waited too long, the first first: what they want is left to them.
    """

    beats: Mapping[str, int] = field(default_factory=dict)
    reservations: tuple[Entry, ...] = ()
    claims: tuple[Entry, ...] = ()

    def reserve(self, entry: Entry) -> Book:
        """Return the book with a reservation; the cell's claim is settled by it."""
        rest = self.release(entry.run, entry.cell)
        return replace(rest, reservations=(*rest.reservations, entry))

    def claim(self, entry: Entry) -> Book:
        """Return the book with a claim behind all others; the same book when the cell has one."""
        if any(found.key == entry.key for found in self.claims):
            return self
        return replace(self, claims=(*self.claims, entry))

    def release(self, run: str, cell: str) -> Book:
        """Return the book without a cell's reservation and claim."""
        return self._only(lambda entry: entry.key != (run, cell))

    def without(self, holders: Iterable[str]) -> Book:
        """Return the book without holders and all that is theirs."""
        gone = frozenset(holders)
        if not gone:
            return self
        book = self._only(lambda entry: entry.holder not in gone)
        return replace(book, beats={h: b for h, b in self.beats.items() if h not in gone})

    def elder_claims(self, run: str, cell: str) -> tuple[Entry, ...]:
        """Return the claims of others that were there before the cell's own; all of them when it has none."""
        keys = [entry.key for entry in self.claims]
        return self.claims[: keys.index((run, cell))] if (run, cell) in keys else self.claims

    def beat(self, holder: str, number: int) -> Book:
        """Return the book with a sign of life; a holder without entries needs none and is left out."""
        beats = {h: b for h, b in self.beats.items() if h != holder}
        if any(entry.holder == holder for entry in (*self.reservations, *self.claims)):
            beats[holder] = number
        return replace(self, beats=beats)

    def _only(self, keeps: Callable[[Entry], bool]) -> Book:
        return replace(
            self, reservations=tuple(filter(keeps, self.reservations)), claims=tuple(filter(keeps, self.claims))
        )


def dump(book: Book) -> str:
    """Write a book as JSON."""
    return json.dumps(
        {
            "format": FORMAT,
            "beats": dict(book.beats),
            "reservations": [_dump_entry(entry) for entry in book.reservations],
            "claims": [_dump_entry(entry) for entry in book.claims],
        },
        separators=(",", ":"),
    )


def load(text: str, *, where: str) -> Book:
    """Read a book; no text is an empty one. InfraError when it is not a book of this format."""
    if not text:
        return Book()
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']}, this vmatrix knows {FORMAT}")
        return Book(
            beats={str(holder): int(beat) for holder, beat in data["beats"].items()},
            reservations=tuple(_load_entry(entry) for entry in data["reservations"]),
            claims=tuple(_load_entry(entry) for entry in data["claims"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfraError(
            f"the reservations in {where} cannot be read: {error!r}",
            hint=f"use one version of vmatrix for all runs on this infra cluster; if none is running, delete {where}",
        ) from error


def _dump_entry(entry: Entry) -> dict[str, Any]:
    counted = [[pod.memory_mib, pod.millicpus, len(list(same))] for pod, same in groupby(sorted(entry.demand.pods))]
    return {"holder": entry.holder, "run": entry.run, "cell": entry.cell, "pods": counted}


def _load_entry(data: Mapping[str, Any]) -> Entry:
    pods = (
        PodRequest(int(memory), int(millicpus)) for memory, millicpus, count in data["pods"] for _ in range(int(count))
    )
    return Entry(str(data["holder"]), str(data["run"]), str(data["cell"]), Demand(tuple(pods)))
