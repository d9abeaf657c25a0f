"""The book of reservations in the infra cluster: one Lease, changed by compare-and-swap, so that runs share one infra.

A reservation lives as long as its holder gives signs of life. Whether it does is judged by each observer with its own
clock: a beat that has not changed for `ttl` seconds since this process first saw it is a dead holder's. No two
machines' clocks are ever compared.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json, Unreachable
from harness.kube.resources import LEASE, NAMESPACE
from harness.model import LABEL_DOMAIN, LABEL_MANAGED, MANAGED_BY
from harness.schedule.book import Book, dump, load
from harness.until import Deadline, NotYet, until

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
    ending = any(cause.get("reason") == "NamespaceTerminating" for cause in failure.causes)
    return failure.code == 403 and not ending
