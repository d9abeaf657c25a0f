"""Waiting for a DataVolume: what counts as progress, when there is none, and when there can be none any more.

WaitForFirstConsumer and PendingPopulation are progress: the disk waits for its machine, and the machine must be started
for it. Everything else that stays the same for too long has stalled, whatever time is left in all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.errors import InfraError, InfraRetriable, VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import DATA_VOLUME, PVC
from harness.machines.kubevirt.disks import FOR_A_CONSUMER, CloneStuck, condition, disk_trouble, failure_of, hopeless
from harness.until import NotYet, TimedOut

LOOK_SECONDS = 2.0  # between looks at the events of a disk that does not come on
TEXT = 1500  # of events in an error's detail
GONE = "it was deleted during the wait"


@dataclass(frozen=True)
class DiskPatience:
    """How long a disk may take its time, in seconds.

    stall: without any progress.  trouble: with a trouble that may come right by itself, such as a used-up quota.
    """

    stall: float
    trouble: float


@dataclass
class DiskWatch:
    """One DataVolume that is waited for, and what was seen of it.

    consumer: whether a machine is there that will use the disk, so that its waiting for one is no stall.
    """

    cluster: Cluster
    namespace: str
    name: str
    patience: DiskPatience
    consumer: bool = False
    phase: str = ""
    _uid: str = ""
    _seen: tuple[str, str, int] = ("", "", -1)
    _seen_at: float = field(default_factory=time.monotonic)
    _looked_at: float = 0.0

    @property
    def what(self) -> str:
        """Return what is waited for, for a person."""
        return f"disk {self.namespace}/{self.name}"

    @property
    def waits_for_machine(self) -> bool:
        """Tell whether the disk waits for the machine that will use it."""
        return self.consumer and self.phase in FOR_A_CONSUMER

    @property
    def idle(self) -> float:
        """Return for how many seconds nothing has changed."""
        return time.monotonic() - self._seen_at

    def look(self) -> bool | NotYet:
        """Tell whether the disk is whole.

        Raises:
            BadImage: the image is not what the user says it is.  CloneStuck: an import may succeed where this does not.
            InfraRetriable: no room, no way to the image, or no progress.  InfraError: it can never come right.
        """
        volume = self.cluster.get(DATA_VOLUME, self.name, self.namespace)
        if volume is None:
            return self._collected()
        self._refuse_another(volume)
        status = volume.get("status") or {}
        self.phase = str(status.get("phase") or "")
        seen = (self.phase, str(status.get("progress") or ""), int(status.get("restartCount") or 0))
        if seen != self._seen:
            self._seen, self._seen_at = seen, time.monotonic()
        if self.phase == "Succeeded":
            return True
        if hopeless(volume):
            raise self.failure(volume)
        if not self.waits_for_machine:
            self._refuse_trouble(volume)
            self._refuse_stalled(volume)
        return NotYet(f"{self.phase or 'new'} {seen[1]}".strip())

    def failure(self, volume: Json) -> VmatrixError:
        """Return why an import has failed, in the importer's own words."""
        return failure_of(self.cluster, self.what, volume, detail=self.events())

    def events(self) -> str:
        """Return the disk's last events, for a person; "" where they may not be looked at."""
        try:
            return "\n".join(self.cluster.events_of(self.namespace, self.name))[-TEXT:]
        except ApiFailure:
            return ""

    def _refuse_another(self, volume: Json) -> None:
        uid = str(volume["metadata"].get("uid", ""))
        if self._uid and uid != self._uid:
            raise InfraError(
                f"{self.what} was replaced by another of the same name during the wait",
                hint="its content is unknown: repeat the run",
            )
        self._uid = uid

    def _collected(self) -> bool:
        """Tell whether a DataVolume that is gone has left its whole claim: CDI before 1.62 takes it away by itself."""
        if self._uid:
            claims = self.cluster.list(PVC, self.namespace, fields=f"metadata.name={self.name}").items
            owners = [o for c in claims for o in c["metadata"].get("ownerReferences") or []]
            if any((c.get("status") or {}).get("phase") == "Bound" for c in claims) and not owners:
                return True
        raise InfraError(f"{self.what}: {GONE}", hint="the events there, or the API's audit log, may show by whom")

    def _refuse_trouble(self, volume: Json) -> None:
        """Raise for what the conditions and events of a disk that does not come on say."""
        patient = self.idle <= self.patience.trouble
        if self.idle < LOOK_SECONDS or time.monotonic() < self._looked_at + LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        running = condition(volume, "Running")
        if running.get("reason") == "Unschedulable" and not patient:
            raise InfraRetriable(
                f"{self.what}: {running.get('message') or 'its importer cannot be scheduled'}",
                hint="no node has room for the importer, or none reaches its volume: kubectl describe pods there",
                detail=self.events(),
            )
        trouble = disk_trouble(self.cluster, self.what, volume, patient=patient)
        if trouble is not None:
            trouble.detail = trouble.detail or self.events()
            raise trouble

    def _refuse_stalled(self, volume: Json) -> None:
        if self.idle <= self.patience.stall:
            return
        source = volume["spec"].get("source") or {}
        clones = bool(source.get("pvc") or source.get("snapshot") or volume["spec"].get("sourceRef"))
        made = self._seen[1] if self._seen[1] not in ("", "N/A") else ""
        summary = f"{self.what} made no progress for {self.idle:.0f} s: {self.phase or 'no phase'} {made}".rstrip()
        hint = "is the storage, or the image's server, overloaded or down? golden_stall in timeouts.yml is the limit"
        if clones and self.consumer:
            raise CloneStuck(summary, hint=f"the next attempt imports the image instead; {hint}", detail=self.events())
        if self.phase in FOR_A_CONSUMER:
            hint = "this CDI does not bind at once when it is asked to: set storage_class to one that binds Immediate"
        raise TimedOut(summary, hint=hint, detail=self.events())
