"""Reservations in an infra cluster: one Lease, changed by compare-and-swap, in which runs write what they hold.

Pure values and their JSON, which stands in an annotation of one Lease. The Lease is harness/schedule/reservations.py's.

A reservation lives as long as its holder gives signs of life. Whether it does is judged by each observer with its own
clock: a beat that has not changed for `ttl` seconds since this process first saw it is a dead holder's. No two
machines' clocks are ever compared.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from harness.errors import InfraError
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json, Unreachable
from harness.kube.resources import LEASE, NAMESPACE
from harness.model import LABEL_DOMAIN, LABEL_MANAGED, MANAGED_BY
from harness.schedule.placement import Demand, PodRequest
from harness.until import Deadline, NotYet, until

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


RESERVATIONS_NAMESPACE = "vmatrix-schedule"
LEASE_NAME = "reservations"
ANNOTATION = f"{LABEL_DOMAIN}/reservations"
SWAP_SECONDS = 60.0  # how long one change may take, conflicts and a restarting API server included
JITTER = (0.02, 0.3)  # seconds between two attempts at a change; one draw per change sets two processes apart
CONFLICTS = frozenset({403, 404, 409})  # lost the race; or the namespace is ending (403) or has just gone (404)

Edit = Callable[[Book], Book | None]


class Ledger:
    """One process's view of the book. Thread-safe: a heartbeat may write while another thread admits."""

    def __init__(
        self,
        cluster: Cluster,
        holder: str,
        *,
        ttl: float,
        now: Callable[[], float] = time.monotonic,
        swap_seconds: float = SWAP_SECONDS,
        namespace: str = RESERVATIONS_NAMESPACE,
    ) -> None:
        """Open the book.

        Args:
            holder: this process; unique among all processes on all machines.
            ttl: seconds without a sign of life after which another holder's entries no longer count.
            namespace: where the book lies; another one than the default has to be there.
        """
        self._namespace = namespace
        self._where = f"lease {namespace}/{LEASE_NAME}"
        self._cluster = cluster
        self._holder = holder
        self._ttl = ttl
        self._now = now
        self._swap_seconds = swap_seconds
        self._seen: dict[str, tuple[int, float]] = {}
        self._beat = 0
        self._lock = threading.Lock()

    def change(self, edit: Edit) -> Book:
        """Change the book and return it: `edit` gets what counts and returns what is to stand there, None to leave it.

        It is asked again after each lost race. What it reads of the cluster, it thereby reads after the book: a machine
        whose reservation has just been released is then seen as a pod.

        Raises:
            TimedOut: every attempt was overtaken by another run's, or the API did not answer.
            InfraError: the book cannot be read, or the API refuses.
        """
        with self._lock:
            return until(
                lambda: self._attempt(edit),
                deadline=Deadline.after(self._swap_seconds),
                what=f"{self._where} to change",
                interval=random.uniform(*JITTER),  # noqa: S311 - not a secret
            )

    def read(self) -> Book:
        """Return what counts now, without changing anything."""
        with self._lock:
            return self._living(self._load(self._cluster.get(LEASE, LEASE_NAME, self._namespace)))

    def _attempt(self, edit: Edit) -> Book | NotYet:
        try:
            lease = self._cluster.get(LEASE, LEASE_NAME, self._namespace)
            living = self._living(self._load(lease))
            wanted = edit(living)
            if wanted is None:
                return living
            self._beat += 1
            after = wanted.beat(self._holder, self._beat)
            self._write(lease, after)
        except ApiFailure as failure:
            if failure.code in CONFLICTS and not _forbidden(failure):
                return NotYet("another run was faster")
            if failure.passing:
                return NotYet(failure.summary)
            raise
        except Unreachable as failure:
            return NotYet(failure.summary)
        return after

    def _load(self, lease: Json | None) -> Book:
        annotations: dict[str, str] = ((lease or {}).get("metadata") or {}).get("annotations") or {}
        return load(annotations.get(ANNOTATION, ""), where=self._where)

    def _living(self, book: Book) -> Book:
        """Return the book without the holders whose beat has not changed for too long; remember what was seen."""
        moment = self._now()
        seen = {}
        for holder, beat in book.beats.items():
            before = self._seen.get(holder)
            seen[holder] = before if before is not None and before[0] == beat else (beat, moment)
        self._seen = seen
        dead = {h for h, (_, since) in seen.items() if h != self._holder and moment - since >= self._ttl}
        orphans = {e.holder for e in (*book.reservations, *book.claims)} - set(book.beats)
        return book.without(dead | orphans)

    def _write(self, lease: Json | None, book: Book) -> None:
        """Swap the book for what was read; a conflict when somebody else did so first."""
        meta: dict[str, Any] = {
            "name": LEASE_NAME,
            "namespace": self._namespace,
            "labels": {LABEL_MANAGED: MANAGED_BY},
            "annotations": {ANNOTATION: dump(book)},
        }
        body: Json = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": {}}
        if lease is None:
            self._ensure_namespace()
            self._cluster.create(LEASE, body)
        else:
            meta["resourceVersion"] = lease["metadata"]["resourceVersion"]
            meta["uid"] = lease["metadata"]["uid"]
            self._cluster.replace(LEASE, body)

    def _ensure_namespace(self) -> None:
        """Make the namespace of the book if it is the default one; whoever may not make it has been given it."""
        if self._namespace != RESERVATIONS_NAMESPACE or self._cluster.get(NAMESPACE, self._namespace) is not None:
            return
        meta = {"name": self._namespace, "labels": {LABEL_MANAGED: MANAGED_BY}}
        self._cluster.create_if_absent(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


def _forbidden(failure: ApiFailure) -> bool:
    """Tell a missing right from a namespace that is just ending; both are a 403."""
    return failure.forbidden and not failure.terminating
