"""A machine that is starting: whether it still can, and when not, why, whose fault it is and what to do.

The values of `printableStatus` are words of the moment; most of them come right by themselves, so each has its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.cell import launchers
from harness.cell.disks import hopeless
from harness.cell.failed_imports import failed_import
from harness.cell.launchers import launcher_pod
from harness.cell.place import Place
from harness.cell.site import Site
from harness.errors import InfraError, InfraRetriable
from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_VOLUME, VM, VMI
from harness.model import PlannedMachine

PULL_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff"})
UNDER_WAY = frozenset({"", "Pending", "Scheduling", "Scheduled"})
MOST_START_FAILURES = 2
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


@dataclass
class Watchpoint:
    """Since when a machine has been in a state that only sometimes comes right."""

    since: dict[str, float] = field(default_factory=dict)

    def lasted(self, state: str) -> float:
        """Return for how many seconds this state has been seen; every other state is forgotten."""
        self.since = {state: self.since.get(state, time.monotonic())}
        return time.monotonic() - self.since[state]


@dataclass(frozen=True)
class Start:
    """A machine that is starting, as it was seen just now: its VM's status and its VMI (None while there is none)."""

    site: Site
    place: Place
    planned: PlannedMachine
    status: Json
    vmi: Json | None

    @property
    def cluster(self) -> Cluster:
        """Return the infra cluster's API."""
        return self.site.cluster

    @property
    def own(self) -> str:
        """Return the name of the machine's objects."""
        return self.place.name(self.planned.name)

    @property
    def name(self) -> str:
        """Return the machine's name for a person: namespace and name."""
        return f"{self.place.namespace}/{self.own}"

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
        return launcher_pod(self.cluster, self.place.namespace, self.vmi) if self.vmi is not None else None

    def describe(self) -> str:
        """Return conditions and last events."""
        return describe_machine(self.cluster, self.place.namespace, self.own)


def refuse_hopeless(start: Start, words: Watchpoint, phases: Watchpoint) -> None:
    """Raise when a machine will not come up any more.

    Args:
        words, phases: since when the VM's word and the VMI's phase have been what they are.

    Raises:
        InfraError: a second attempt would end the same.  InfraRetriable: one may come up.
    """
    patient = words.lasted(start.word) <= start.site.timeouts.unschedulable
    _refuse_ended(start)
    if start.word == "DataVolumeError":
        _fail_on_disk(start)
    elif not patient:
        _refuse_late(start)
    _refuse_stuck(start, phases)


def _refuse_late(start: Start) -> None:
    """Raise for a word that has been the same for too long."""
    seconds = start.site.timeouts.unschedulable
    if start.word == "ErrorUnschedulable":
        said = unschedulable_reason(start)
        raise InfraRetriable(
            f"no room for machine {start.name} for {seconds:.0f} s: {said}", hint=_no_room_hint(start.planned, said)
        )
    if start.word == "ErrorPvcNotFound":
        raise InfraError(
            f"the disk of machine {start.name} does not exist",
            hint="was its claim deleted by hand, or by a quota's or a reaper's schedule?",
            detail=start.describe(),
        )
    if start.word in PULL_ERRORS:
        why = launchers.waits_for(start.pod()) or start.word
        raise InfraError(
            f"the launcher of machine {start.name} has not started for {seconds:.0f} s: {why}",
            hint=PULL_HINT,
            detail=start.describe(),
        )
    if why := _sync_failure(start):
        raise InfraRetriable(
            f"machine {start.name} has not started for {seconds:.0f} s: {why}",
            hint="the infra cluster's own logs say more: virt-handler's on the machine's node, and its launcher's",
            detail=start.describe(),
        )


def _no_room_hint(planned: PlannedMachine, said: str) -> str:
    fits = (hint for part, hint in NO_ROOM_HINTS if part in said)
    usual = f"it needs {planned.memory_mib} MiB; free memory on the infra cluster or choose a smaller topology"
    return next(fits, usual)


def _refuse_ended(start: Start) -> None:
    """Raise for a machine that has died, or died several times."""
    failures = int((start.status.get("startFailure") or {}).get("consecutiveFailCount") or 0)
    down = start.word == "CrashLoopBackOff" or (start.word == "Stopped" and bool(start.status.get("created")))
    if not down and failures < MOST_START_FAILURES:
        return
    why = _ended_by(start)
    hint = OOM_HINT if launchers.OOM_KILLED in why else "its launcher's and its console's logs are collected"
    times = f" (failed to start {failures} times)" if failures else ""
    raise InfraError(f"machine {start.name} does not stay up{times}: {why}", hint=hint, detail=start.describe())


def _ended_by(start: Start) -> str:
    """Return why a machine is down: its launcher's last words, or what its instance shows."""
    vmi = start.vmi or {}
    if died := launchers.died_of(start.pod()):
        return died
    if (vmi.get("metadata") or {}).get("deletionTimestamp"):
        return "its instance is being deleted: by a drain of its node, a reaper or a person"
    if start.phase == launchers.SUCCEEDED:
        return launchers.SHUT_DOWN
    return str((vmi.get("status") or {}).get("reason") or start.word)


def _refuse_stuck(start: Start, phases: Watchpoint) -> None:
    """Raise for an instance that stays in one phase although nothing is said against it."""
    lasted = phases.lasted(start.phase)
    limit = start.site.timeouts.machine_phase
    if start.word != "Starting" or start.vmi is None or start.phase not in UNDER_WAY or lasted <= limit:
        return
    node = str((start.vmi.get("status") or {}).get("nodeName") or (start.pod() or {}).get("spec", {}).get("nodeName"))
    waits = launchers.waits_for(start.pod())
    agent = launchers.node_agent(start.cluster, "" if node == "None" else node)
    raise InfraRetriable(
        f"machine {start.name} stays {start.phase or 'without a phase'} for {lasted:.0f} s: {waits or agent}",
        hint="KubeVirt's agent on the node starts a scheduled machine: check the virt-handler pod there",
        detail=f"{agent}\n{start.describe()}",
    )


def _sync_failure(start: Start) -> str:
    """Return why a machine that should be starting is not, "" when its VMI reports no failure."""
    if start.word != "Starting":
        return ""
    failed = (c for c in conditions(start.vmi) if c["type"] == "Synchronized" and c["status"] == "False")
    return next((str(c.get("message") or c.get("reason")) for c in failed), "")


def _fail_on_disk(start: Start) -> None:
    """Raise when a machine's disk can never come right; an import that still retries is left alone."""
    namespace = start.place.namespace
    volume = start.cluster.get(DATA_VOLUME, start.own, namespace)
    if volume is not None and hopeless(volume):
        detail = "\n".join(start.cluster.events_of(namespace, start.own))
        what = f"the disk of machine {start.name} cannot be made"
        raise failed_import(start.cluster, what, volume, namespace=namespace, detail=detail)


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
