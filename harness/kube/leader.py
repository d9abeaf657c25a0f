"""One of several processes works: it holds a Lease and renews it; another takes it once it is no longer renewed.

Whether a holder is alive is judged by each observer with its own clock: a Lease that has not changed for its duration
since this process first saw it so is a dead holder's. The times written in it are for people; no two machines' clocks
are ever compared. A holder gives up earlier than anybody else can take over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.errors import InfraRetriable
from harness.kube.api import Patience
from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.objects import dig
from harness.kube.resources import LEASE
from harness.until import Deadline, NotYet, TimedOut, until

# Policy: a manager that was killed is replaced within 20 s: this, one look, and 3 s for the first lists of the next.
LEASE_SECONDS = 15.0
RENEW_SECONDS = 8.0  # pacing: all that an idle manager writes, seven to eight times a minute
GIVE_UP_SECONDS = 12.0  # from the last renewal, before anybody else takes over: time for three tries
RETRY_SECONDS = 2.0  # between two tries to renew, and between two looks at another's Lease

Seen = tuple[str, str, float]  # holder, resourceVersion, and the seconds that it lasts


class LeadershipLost(InfraRetriable):
    """The Lease could not be renewed in time, or somebody else has it: this process must not work on."""


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds: how long a Lease lasts, how often it is renewed, when its holder gives up, and between two tries."""

    lease: float = LEASE_SECONDS
    renew: float = RENEW_SECONDS
    give_up: float = GIVE_UP_SECONDS
    retry: float = RETRY_SECONDS

    @staticmethod
    def lasting(seconds: float) -> LeaseTimes:
        """Return the times of a Lease that lasts so long, in the proportions of the usual one; looks are not rarer."""
        share = seconds / LEASE_SECONDS
        retry = RETRY_SECONDS * min(share, 1.0)
        return LeaseTimes(seconds, RENEW_SECONDS * share, GIVE_UP_SECONDS * share, retry)

    def patience(self, stretch: float = 1.0) -> Patience:
        """Return how long one request about the Lease may take: one that hangs must not outlast the Lease."""
        seconds = self.retry * stretch
        return Patience(connect_seconds=seconds, read_seconds=seconds, whole_seconds=seconds)


class Leadership:
    """One process's claim on a Lease. Not thread-safe: one thread acquires, keeps and releases."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        holder: str,
        *,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the Lease, and this process in it: unique among all processes on all machines."""
        self.where = f"Lease {namespace}/{name}"
        self._cluster = cluster
        self._meta = {"namespace": namespace, "name": name}
        self._holder = holder
        self._times = times or LeaseTimes()
        self._clock = clock
        self._seen: tuple[Seen, float] | None = None  # another's Lease as it is, and since when this process sees it so
        self._held: Json | None = None
        self._renewed = 0.0  # when the last renewal that succeeded was sent
        self.renewed_at = 0.0  # the same by the clock on the wall; 0 before the first

    def acquire(self, stopping: threading.Event) -> bool:
        """Wait until the Lease is this process's; False when `stopping` was set before.

        Raises:
            ApiFailure: the API refuses, in a way that does not pass.
        """
        while not stopping.is_set():
            try:
                if self.attempt():
                    return True
            except (ApiFailure, Unreachable) as failure:
                if not failure.passing:
                    raise
            stopping.wait(self.pause())
        return False

    def pause(self) -> float:
        """Return the seconds until the next look at another's Lease: not later than when it can be taken."""
        if self._seen is None:
            return self._times.retry
        (_, _, duration), since = self._seen
        return max(0.0, min(self._times.retry, since + duration - self._clock()))

    def attempt(self) -> bool:
        """Try once to get the Lease; tell whether this process has it now."""
        lease = self._cluster.get(LEASE, self._meta["name"], self._meta["namespace"])
        if lease is not None and not self._free(lease):
            return False
        return self._write(lease)

    def keep(self, stopping: threading.Event) -> None:
        """Renew the Lease until `stopping` is set.

        Raises:
            LeadershipLost: it is another's, or could not be renewed in time.
        """
        while not stopping.wait(self._times.renew):
            self.renew(stopping)

    def renew(self, stopping: threading.Event | None = None) -> None:
        """Renew the Lease once, with as many tries as there is time for; fewer when `stopping` is set.

        Raises:
            LeadershipLost: see `keep`.
        """

        def renewed() -> bool | NotYet:
            if stopping is not None and stopping.is_set():
                return True
            return self._write(self._held) or self._look_again()

        # At least one try, also for a process that stood still: if another has the Lease, the API refuses it.
        left = max(self._times.retry, self._times.give_up - (self._clock() - self._renewed))
        try:
            until(renewed, deadline=Deadline.after(left), what=self.where, interval=self._times.retry)
        except TimedOut as error:
            raise self._lost(f"could not be renewed for {self._times.give_up:g} s: {error}") from error

    def release(self) -> None:
        """Let another have the Lease at once; an API that does not answer is not a reason to stay."""
        held, self._held = self._held, None
        if held is None:
            return
        spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            self._cluster.replace(LEASE, {**held, "spec": spec})
        except (ApiFailure, Unreachable):
            return

    def _free(self, lease: Json) -> bool:
        """Tell whether nobody holds the Lease: it was released, or has not changed for as long as it lasts."""
        holder = str(dig(lease, "spec", "holderIdentity") or "")
        if holder in ("", self._holder):
            return True
        duration = float(dig(lease, "spec", "leaseDurationSeconds") or self._times.lease)
        state = (holder, str(lease["metadata"]["resourceVersion"]), duration)
        if self._seen is None or self._seen[0] != state:
            self._seen = (state, self._clock())
        return self._clock() >= self._seen[1] + duration

    def _write(self, before: Json | None) -> bool:
        """Put this process into the Lease as it was read; False when somebody else was faster."""
        sent = self._clock()
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = dig(before, "spec") or {}
        spec: Json = {**old, "renewTime": moment, "leaseDurationSeconds": max(1, round(self._times.lease))}
        if old.get("holderIdentity") != self._holder:
            changes = int(old.get("leaseTransitions") or 0) + (before is not None)
            spec |= {"holderIdentity": self._holder, "acquireTime": moment, "leaseTransitions": changes}
        meta = before["metadata"] if before is not None else self._meta
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": spec}
        try:
            made = self._cluster.create(LEASE, body) if before is None else self._cluster.replace(LEASE, body)
        except ApiFailure as failure:
            if failure.conflict or failure.not_found:
                return False
            raise
        self._held, self._renewed, self.renewed_at = made, sent, time.time()
        return True

    def _look_again(self) -> NotYet:
        """Read the Lease after a refused write: an answer was lost, a person wrote a label, or another holds it."""
        lease = self._cluster.get(LEASE, self._meta["name"], self._meta["namespace"])
        holder = dig(lease, "spec", "holderIdentity")
        if lease is not None and holder != self._holder:
            raise self._lost(f"is {holder or 'nobody'}'s now")
        self._held = lease
        return NotYet("somebody else changed it")

    def _lost(self, why: str) -> LeadershipLost:
        self._held = None
        return LeadershipLost(
            f"{self.where} {why}", hint="another manager works; this one ends, and is started again by what runs it"
        )
