"""Machines that start: the stage that each has reached, what holds it up, whose fault that is and what to do.

The values of `printableStatus` are words of the moment; most of them come right by themselves. Whoever waits gives each
its time, and says how long it has lasted.

Nobody waits here: whoever asks again sees more. How long something has been so, the objects themselves say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from harness.errors import InfraError, InfraRetriable, VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, parse_time
from harness.kube.resources import DATA_VOLUME, VM, VMI
from harness.machines.kubevirt import launchers
from harness.machines.kubevirt.disks import disk_trouble, failed_import, failure_of, hopeless
from harness.machines.kubevirt.launchers import launcher_pod

PULL_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff"})
MOST_START_FAILURES = 2
SYNC_FAILED = "SyncFailed"  # reason of the event
# What the scheduler says -> what to do about it; the first that fits.
NO_ROOM_HINTS = (
    ("devices.kubevirt.io/kvm", "no node has KVM: set useEmulation in KubeVirt's configuration, or add such a node"),
    ("devices.kubevirt.io/", "no node has this device: is virt-handler running on the nodes?"),
    (
        "node affinity",
        "no node offers what the machine requests, such as a CPU model: see `vmatrix doctor`",
    ),
    ("taint", "the nodes are tainted: are they ready, and meant for machines?"),
)
PULL_HINT = (
    "the nodes must reach KubeVirt's images, or a mirror of them; if the container says `no such file`, see the "
    "feature gate ImageVolume (on by default in KubeVirt 1.9, broken on Kubernetes before 1.35)"
)
OOM_HINT = (
    "leave the machine's resources.limits unset, or give it more domain.memory.reservedOverhead; its node may also "
    "have too little memory for all"
)


@dataclass(frozen=True)
class Start:
    """A machine that is starting, as it was seen just now.

    own: the name of its objects.  memory_mib: what it asks for.
    status: its VM's.  vmi: its instance, None while there is none.
    """

    cluster: Cluster
    namespace: str
    own: str
    memory_mib: int
    status: Json
    vmi: Json | None

    @property
    def name(self) -> str:
        """Return the machine's name for a person: namespace and name."""
        return f"{self.namespace}/{self.own}"

    @property
    def word(self) -> str:
        """Return the VM's printable status."""
        return str(self.status.get("printableStatus", ""))

    @property
    def phase(self) -> str:
        """Return the VMI's phase, "" without one."""
        return str(((self.vmi or {}).get("status") or {}).get("phase") or "")

    def pod(self) -> Json | None:
        """Return the launcher pod."""
        return launcher_pod(self.cluster, self.namespace, self.vmi) if self.vmi is not None else None

    def describe(self) -> str:
        """Return conditions and last events."""
        return describe_machine(self.cluster, self.namespace, self.own)


def held_up(start: Start, lasted: str = "", smaller: str = "choose a smaller topology") -> VmatrixError | None:
    """Return what keeps a machine from starting, None where nothing is said against it; it may come right by itself.

    Args:
        lasted: how long it has been so, such as ` for 60 s`.
        smaller: how to ask for less.
    """
    if start.word == "ErrorUnschedulable":
        said = unschedulable_reason(start)
        hint = _no_room_hint(start.memory_mib, said, smaller)
        return InfraRetriable(f"no room for machine {start.name}{lasted}: {said}", hint=hint)
    if start.word == "ErrorPvcNotFound":
        return InfraError(
            f"the disk of machine {start.name} does not exist",
            hint="was its claim deleted by hand, or by a quota's or a reaper's schedule?",
            detail=start.describe(),
        )
    if start.word in PULL_ERRORS:
        why = launchers.waits_for(start.pod()) or start.word
        summary = f"the launcher of machine {start.name} has not started{lasted}: {why}"
        return InfraError(summary, hint=PULL_HINT, detail=start.describe())
    if why := _sync_failure(start):
        return InfraRetriable(
            f"machine {start.name} has not started{lasted}: {why}",
            hint="the infra cluster's own logs say more: virt-handler's on the machine's node, and its launcher's",
            detail=start.describe(),
        )
    return None


def _no_room_hint(memory_mib: int, said: str, smaller: str) -> str:
    fits = (hint for part, hint in NO_ROOM_HINTS if part in said)
    usual = f"it needs {memory_mib} MiB; free memory on the infra cluster or {smaller}"
    return next(fits, usual)


def ended(start: Start, where: str = "its launcher's and its console's logs are collected") -> InfraError | None:
    """Return why a machine has died, or died several times; None for one that lives. `where` more is said of it."""
    failures = int((start.status.get("startFailure") or {}).get("consecutiveFailCount") or 0)
    down = start.word == "CrashLoopBackOff" or (start.word == "Stopped" and bool(start.status.get("created")))
    if not down and failures < MOST_START_FAILURES:
        return None
    why = ended_by(start)
    hint = OOM_HINT if launchers.OOM_KILLED in why else where
    times = f" (failed to start {failures} times)" if failures else ""
    return InfraError(f"machine {start.name} does not stay up{times}: {why}", hint=hint, detail=start.describe())


def ended_by(start: Start) -> str:
    """Return why a machine is down: its launcher's last words, or what its instance shows."""
    vmi, died = start.vmi or {}, launchers.died_of(start.pod())
    if launchers.OOM_KILLED in died:
        return died
    if start.phase == launchers.SUCCEEDED and (vmi.get("metadata") or {}).get("deletionTimestamp"):
        return "its instance is being deleted: by a drain of its node, a reaper or a person"
    if start.phase == launchers.SUCCEEDED:
        return launchers.SHUT_DOWN
    said = _not_synchronized(start) or died or last_sync_failure(start)
    return said or str((vmi.get("status") or {}).get("reason") or start.word)


def _sync_failure(start: Start) -> str:
    """Return why a machine that should be starting is not, "" when its VMI reports no failure."""
    return _not_synchronized(start) if start.word == "Starting" else ""


def _not_synchronized(start: Start) -> str:
    failed = (c for c in conditions(start.vmi) if c["type"] == "Synchronized" and c["status"] == "False")
    return next((_in_one_line(str(c.get("message") or c.get("reason"))) for c in failed), "")


def last_sync_failure(start: Start) -> str:
    """Return what the agent of a node last said of a domain that it could not start, "" where it said nothing.

    The condition is gone with the instance that had it: a machine that starts over and over shows it for a moment.
    """
    events = start.cluster.events_about(start.namespace, start.own)
    failed = (event for event in reversed(events) if event.get("reason") == SYNC_FAILED)
    return next((_in_one_line(str(event.get("message") or "")) for event in failed), "")


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def disk_failure(start: Start) -> VmatrixError | None:
    """Return why a machine's disk can never come right; None for an import that still retries."""
    volume = start.cluster.get(DATA_VOLUME, start.own, start.namespace)
    if volume is None or not hopeless(volume):
        return None
    detail = "\n".join(start.cluster.events_of(start.namespace, start.own))
    what = f"the disk of machine {start.name} cannot be made"
    return failed_import(start.cluster, what, volume, namespace=start.namespace, detail=detail)


def unschedulable_reason(start: Start) -> str:
    """Return what the scheduler says about a launcher pod; the VMI's copy of it may be stale."""
    refused = (c for c in conditions(start.pod()) if c["type"] == "PodScheduled" and c["status"] == "False")
    return next((str(c.get("message", "")) for c in refused), "the scheduler gave no reason")


def conditions(obj: Json | None) -> Iterable[Json]:
    """Return an object's conditions, none for no object."""
    found: Iterable[Json] = ((obj or {}).get("status") or {}).get("conditions") or []
    return found


def describe_machine(cluster: Cluster, namespace: str, name: str) -> str:
    """Return a machine's conditions, phases and last events, for a person."""
    lines = []
    for resource in (VM, VMI):
        found = cluster.get(resource, name, namespace)
        lines += [
            f"{resource.kind} {c['type']}={c['status']} {c.get('reason', '')} {c.get('message', '')}".rstrip()
            for c in conditions(found)
        ]
        entered = ((found or {}).get("status") or {}).get("phaseTransitionTimestamps") or []
        lines += [f"{resource.kind} {t['phase']} since {t['phaseTransitionTimestamp']}" for t in entered]
    return "\n".join([*lines, *cluster.events_of(namespace, name)[-10:]])


EVENTS_SECONDS = 10.0  # pacing: most disks are whole by then, and nobody has to read all events of the namespace
PATIENT_SECONDS = 60.0  # as `unschedulable` in matrix/timeouts.yml: a used-up quota may be freed
TERMS = {
    "images": "the fields of `kubevirt.image`",
    "size": "`kubevirt.disk`",
    "source": "in `kubevirt.image`, from a pod of the infra cluster",
    "secrets": "in the namespace of the Machine",
}
SMALLER = "ask for less in `kubevirt.memory`, `kubevirt.cpus` or `kubevirt.nodeSelector`"
LOGS = "see the logs of its virt-launcher pod"


class Stage(StrEnum):
    """What a machine that is being made has come to, as the reason of a condition."""

    KEY_MISSING = "KeyMissing"
    NAME_TAKEN = "NameTaken"
    QUOTA_EXCEEDED = "QuotaExceeded"
    REFUSED = "Refused"
    IMPORTING_IMAGE = "ImportingImage"
    IMAGE_IMPORT_FAILED = "ImageImportFailed"
    MAKING_DISK = "MakingDisk"
    DISK_FAILED = "DiskFailed"
    STARTING = "Starting"
    NO_NODE_FITS = "NoNodeFits"
    NOT_STARTING = "NotStarting"
    WAITING_FOR_ISOLATION = "WaitingForIsolation"  # of the operator, whose policy selects it first


@dataclass(frozen=True)
class Halt:
    """Where a machine is at; the message ends with what to do where something is to be done."""

    reason: Stage
    message: str


def of_image(cluster: Cluster, volume: Json, moment: datetime) -> Halt | None:
    """Return how far the import of a machine's image is, None when it is there."""
    what = f"image {volume['metadata']['name']}"
    return _of_volume(cluster, what, volume, moment, (Stage.IMPORTING_IMAGE, Stage.IMAGE_IMPORT_FAILED))


def of_disk(cluster: Cluster, volume: Json, moment: datetime) -> Halt | None:
    """Return how far a machine's disk is, None when it is whole."""
    what = f"disk {volume['metadata']['name']}"
    return _of_volume(cluster, what, volume, moment, (Stage.MAKING_DISK, Stage.DISK_FAILED))


def of_start(start: Start) -> Halt:
    """Return how far a machine is that has all of its objects and does not run yet."""
    trouble: VmatrixError | None = ended(start, LOGS)
    if trouble is None and start.word == "DataVolumeError":
        trouble = disk_failure(start)
    if trouble is not None:
        return Halt(Stage.NOT_STARTING, said(trouble))
    trouble = held_up(start, smaller=SMALLER)
    if trouble is None:
        return Halt(Stage.STARTING, f"machine {start.name} starts: {start.word or start.phase or 'no status yet'}")
    unschedulable = start.word == "ErrorUnschedulable"
    return Halt(Stage.NO_NODE_FITS if unschedulable else Stage.NOT_STARTING, said(trouble))


def said(trouble: VmatrixError) -> str:
    """Return what an error says, with what to do, in one line."""
    return f"{trouble.summary}; {trouble.hint}" if trouble.hint else trouble.summary


def _of_volume(
    cluster: Cluster, what: str, volume: Json, moment: datetime, reasons: tuple[Stage, Stage]
) -> Halt | None:
    phase, (coming, failed) = str(dig(volume, "status", "phase") or ""), reasons
    if phase == "Succeeded":
        return None
    if hopeless(volume):
        return Halt(failed, said(failure_of(cluster, what, volume, terms=TERMS)))
    age = (moment - parse_time(volume["metadata"]["creationTimestamp"])).total_seconds()
    if age >= EVENTS_SECONDS:
        trouble = disk_trouble(cluster, what, volume, patient=age < PATIENT_SECONDS, terms=TERMS)
        if trouble is not None:
            return Halt(coming if isinstance(trouble, InfraRetriable) else failed, said(trouble))
    progress = str(dig(volume, "status", "progress") or "")
    return Halt(coming, f"{what}: {phase or 'new'} {progress if progress != 'N/A' else ''}".rstrip())
