"""Machines through the KubeVirt API: create them, wait for their addresses, and notice when one is replaced.

The values of `printableStatus` are of the moment. Most of them come right by themselves, so each has a time limit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from harness.cell.golden import DiskPatience, DiskWatch
from harness.cell.manifests import CellPlan
from harness.cell.place import Place, owned_by
from harness.cell.site import Site
from harness.errors import InfraError, InfraRetriable, VmatrixError
from harness.infra.cluster.capacity import PodUsage, usage_of
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import DATA_VOLUME, POD, SECRET, VM, VMI, Resource
from harness.machines.kubevirt import launchers
from harness.machines.kubevirt.launchers import Sighting, address_of, change, ipv6_address_of, useless
from harness.machines.kubevirt.manifests import GoldenImage, Origin, machine
from harness.machines.kubevirt.starting import Start, describe_machine, disk_failure, ended, held_up, last_sync_failure
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_RUN, Machine, PlannedMachine
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until

UNDER_WAY = frozenset({"", "Pending", "Scheduling", "Scheduled"})


@dataclass
class Watchpoint:
    """Since when a machine has been in a state that only sometimes comes right."""

    since: dict[str, float] = field(default_factory=dict)

    def lasted(self, state: str) -> float:
        """Return for how many seconds this state has been seen; every other state is forgotten."""
        self.since = {state: self.since.get(state, time.monotonic())}
        return time.monotonic() - self.since[state]


def refuse_hopeless(start: Start, timeouts: Timeouts, words: Watchpoint, phases: Watchpoint) -> None:
    """Raise when a machine will not come up any more.

    Args:
        words, phases: since when the VM's word and the VMI's phase have been what they are.

    Raises:
        InfraError: a second attempt would end the same.  InfraRetriable: one may come up.
    """
    patient = words.lasted(start.word) <= timeouts.unschedulable
    trouble: VmatrixError | None = ended(start)
    if trouble is None and start.word == "DataVolumeError":
        trouble = disk_failure(start)
    elif trouble is None and not patient:
        trouble = held_up(start, f" for {timeouts.unschedulable:.0f} s")
    if trouble is not None:
        raise trouble
    _refuse_stuck(start, phases.lasted(start.phase), timeouts.machine_phase)


def _refuse_stuck(start: Start, lasted: float, limit: float) -> None:
    """Raise for an instance that stays in one phase although nothing is said against it."""
    if start.word != "Starting" or start.vmi is None or start.phase not in UNDER_WAY or lasted <= limit:
        return
    node = str((start.vmi.get("status") or {}).get("nodeName") or (start.pod() or {}).get("spec", {}).get("nodeName"))
    waits = launchers.waits_for(start.pod())
    agent = launchers.node_agent(start.cluster, "" if node == "None" else node)
    why = last_sync_failure(start) or waits or agent
    raise InfraRetriable(
        f"machine {start.name} stays {start.phase or 'without a phase'} for {lasted:.0f} s: {why}",
        hint="KubeVirt's agent on the node starts a scheduled machine: check the virt-handler pod there",
        detail=f"{agent}\n{start.describe()}",
    )


T = TypeVar("T")
SSH_PORT = 22
OURS = (LABEL_RUN, LABEL_CELL, LABEL_ATTEMPT)
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.15, 1.0  # between looks at a machine that starts


def create_machine(
    site: Site, plan: CellPlan, planned: PlannedMachine, image: GoldenImage, origin: Origin | None = None
) -> None:
    """Create one machine's disk, cloud-init secret and VirtualMachine; what is already there of ours stays.

    The machine is made at once, not when its disk is whole: a disk may be waiting for it.

    Args:
        origin: what its disk is made from; the golden image's claim without it.

    Raises:
        InfraError: an object of that name is there and somebody else's.  TimedOut: a quota does not admit it.
    """
    disk, secret, vm = machine(plan, planned, image, directory=site.templates, origin=origin)
    seconds = site.timeouts.unschedulable
    volume = admitted(lambda: create_own(site, DATA_VOLUME, disk), what=f"the disk of {planned.name}", seconds=seconds)
    secret["metadata"]["ownerReferences"] = [owned_by(volume)]  # goes with the disk: no right to delete it is needed
    admitted(
        lambda: site.cluster.create_if_absent(SECRET, secret), what=f"the secret of {planned.name}", seconds=seconds
    )
    admitted(lambda: create_own(site, VM, vm), what=f"machine {planned.name}", seconds=seconds)


def admitted(create: Callable[[], T], *, what: str, seconds: float) -> T:
    """Create something, again and again while a quota refuses it.

    Args:
        create: does it; what is already there is not its failure.
        what: for a person.
        seconds: how long a quota may refuse.

    Raises:
        TimedOut: a quota still refuses.  ApiFailure: any other refusal.
    """

    def probe() -> tuple[T] | NotYet:
        try:
            return (create(),)
        except ApiFailure as failure:
            if failure.by_quota:
                return NotYet(failure.message)
            raise

    deadline = Deadline.after(seconds)
    return until(probe, deadline=deadline, what=f"the namespace's quota to admit {what}", interval=0.5)[0]


def wait_for_disk(site: Site, place: Place, planned: PlannedMachine) -> None:
    """Wait until a machine's disk is whole; while it waits for the machine, look whether that can come.

    Raises:
        CloneStuck: an import may succeed where this clone does not.  See `DiskWatch.look` for the others.
    """
    words, phases = Watchpoint(), Watchpoint()
    namespace, name = place.namespace, place.name(planned.name)
    patience = DiskPatience(site.timeouts.golden_stall, site.timeouts.unschedulable)
    watch = DiskWatch(site.cluster, namespace, name, patience, consumer=True)

    def probe() -> bool | NotYet:
        answer = watch.look()
        if isinstance(answer, NotYet) and watch.waits_for_machine:
            vm = site.cluster.get(VM, name, namespace) or {}
            refuse_hopeless(_start(site, place, planned, vm), site.timeouts, words, phases)
        return answer

    until(
        probe,
        deadline=Deadline.after(site.timeouts.clone),
        what=f"the disk of machine {planned.name} to be complete",
        describe=lambda: describe_machine(site.cluster, namespace, name),
        interval=FIRST_LOOK_SECONDS,
        slowest=LAST_LOOK_SECONDS,
    )


def create_own(site: Site, resource: Resource, body: Json) -> Json:
    """Create an object, or return the one that an earlier try of this same attempt has made.

    Raises:
        InfraError: an object of that name is there and of another run, cell or attempt.
    """
    found = site.cluster.ensure(resource, body)
    theirs, ours = (obj["metadata"].get("labels") or {} for obj in (found, body))
    if any(theirs.get(label) != ours.get(label) for label in OURS):
        meta = body["metadata"]
        where = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
        whose = ", ".join(f"{label}={theirs.get(label, 'none')}" for label in OURS)
        raise InfraError(
            f"{resource.kind} {where} already exists and belongs to another run ({whose})",
            hint="repeat the run, which gets another id; `vmatrix reap --expired` removes what was left behind",
        )
    return found


def wait_for_address(site: Site, place: Place, planned: PlannedMachine, user: str) -> Machine:
    """Wait until a machine runs and its launcher pod has an address.

    The address is the launcher pod's: the VMI's own may be wrong without a guest agent, or flip with one.

    Raises:
        InfraError: the machine or its disk can never come up.
        InfraRetriable: no room in the infra cluster for too long, or time is up.
    """
    wait_for_disk(site, place, planned)
    words, phases = Watchpoint(), Watchpoint()
    namespace, name = place.namespace, place.name(planned.name)

    def probe() -> tuple[str, str] | NotYet:
        vm = site.cluster.get(VM, name, namespace)
        if vm is None:
            raise InfraError(f"VirtualMachine {namespace}/{name} was deleted during the wait")
        start = _start(site, place, planned, vm)
        refuse_hopeless(start, site.timeouts, words, phases)
        if start.vmi is None or start.word != "Running":
            return NotYet(start.word or "no status yet")
        if start.phase != "Running":
            return NotYet(f"VMI phase {start.phase}")
        return _addresses(start)

    address, ipv6 = until(
        probe,
        deadline=Deadline.after(site.timeouts.machine_address),
        what=f"machine {planned.name} to get an address",
        describe=lambda: describe_machine(site.cluster, namespace, name),
        interval=FIRST_LOOK_SECONDS,
        slowest=LAST_LOOK_SECONDS,
    )
    connect_seconds = site.timeouts.ssh_connect
    return Machine(planned, address, SSH_PORT, user, connect_seconds=connect_seconds, ipv6_address=ipv6)


def _start(site: Site, place: Place, planned: PlannedMachine, vm: Json) -> Start:
    own = place.name(planned.name)
    vmi = site.cluster.get(VMI, own, place.namespace)
    return Start(site.cluster, place.namespace, own, planned.memory_mib, vm.get("status") or {}, vmi)


def _addresses(start: Start) -> tuple[str, str] | NotYet:
    pod = start.pod()
    if pod is None:
        return NotYet("its instance reports Running but has no launcher pod")
    address = address_of(pod)
    if not address:
        return NotYet("its launcher pod has no address")
    why = useless(address)
    return NotYet(f"its launcher pod's address {address} {why}") if why else (address, ipv6_address_of(pod))


def sight(cluster: Cluster, place: Place, machines: Sequence[Machine]) -> tuple[Sighting, ...]:
    """Return what identifies some machines that run."""
    instances, pods = _look(cluster, place)
    return tuple(_sighting(m, instances[place.name(m.name)], pods) for m in machines if place.name(m.name) in instances)


def _sighting(machine: Machine, vmi: Json, pods: Mapping[str, Json]) -> Sighting:
    pod = pods.get(vmi["metadata"]["uid"]) or {}
    uid = (pod.get("metadata") or {}).get("uid", "")
    node = (vmi.get("status") or {}).get("nodeName", "")
    return Sighting(machine.name, vmi["metadata"]["uid"], uid, node, machine.address)


def _look(cluster: Cluster, place: Place) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the place's instances by name, and the newest launcher of each by the instance's uid."""
    instances = {v["metadata"]["name"]: v for v in cluster.list(VMI, place.namespace, labels=place.selector).items}
    pods = cluster.list(POD, place.namespace, labels=place.selector).items
    pods.sort(key=lambda p: str(p["metadata"]["creationTimestamp"]))
    return instances, {(p["metadata"].get("labels") or {}).get(launchers.CREATED_BY, ""): p for p in pods}


def changes(cluster: Cluster, place: Place, before: Sequence[Sighting], names: Collection[str]) -> list[str]:
    """Say of each of some machines that is not what it was, what became of it.

    Args:
        names: of the machines that should still be there.
    """
    instances, pods = _look(cluster, place)
    missed = [
        (sighting, instances.get(place.name(sighting.machine))) for sighting in before if sighting.machine in names
    ]
    became_of = (
        (sighting, change(sighting, vmi, pods.get(vmi["metadata"]["uid"]) if vmi else None)) for sighting, vmi in missed
    )
    return [f"machine {sighting.machine} {became}" for sighting, became in became_of if became]


log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # pacing: a look costs the node a few files for each machine


@dataclass(frozen=True)
class MachineUsage:
    """What a machine took, in MiB.

    deployed: memory after the first phase.  peak: the most memory.  clone: its disk as it came up.  disk: its disk
    when it was seen last.
    """

    deployed: int = 0
    peak: int = 0
    clone: int = 0
    disk: int = 0

    def seen(self, now: PodUsage) -> MachineUsage:
        """Return it with a further look."""
        return replace(self, peak=max(self.peak, now.memory), clone=self.clone or now.disk, disk=now.disk or self.disk)


class UsageWatch:
    """Looks at the machines of one attempt, on a daemon thread, until it is told to stop."""

    def __init__(self, cluster: Cluster, machines: Sequence[Sighting]) -> None:
        self._cluster = cluster
        self._machines = {sighting.launcher: sighting.machine for sighting in machines if sighting.launcher}
        self._nodes = sorted({sighting.node for sighting in machines if sighting.node})
        self._found: dict[str, MachineUsage] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self) -> UsageWatch:
        """Begin to look; return this."""
        self.thread = threading.Thread(target=self._go_on, daemon=True, name="usage")
        self.thread.start()
        return self

    def _go_on(self) -> None:
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(LOOK_SECONDS)

    def look(self) -> dict[str, PodUsage]:
        """Look once, and return what the machines take now, by their names; an API in trouble fails nothing."""
        try:
            nodes = usage_of(self._cluster, self._nodes)
        except VmatrixError as error:
            log.debug("what machines take could not be read: %s", error)
            return {}
        now = {
            self._machines[uid]: pod
            for node in nodes.values()
            for uid, pod in node.pods.items()
            if uid in self._machines
        }
        with self._lock:
            for machine, pod in now.items():
                self._found[machine] = self._found.get(machine, MachineUsage()).seen(pod)
        return now

    def deployed(self) -> None:
        """Take note of what the machines take now that the first phase has ended."""
        now = self.look()
        with self._lock:
            for machine, pod in now.items():
                self._found[machine] = replace(self._found[machine], deployed=pod.memory)

    def stop(self) -> Mapping[str, Mapping[str, int]]:
        """Look no more; return what each machine took, as plain data."""
        self._stopped.set()
        with self._lock:
            return {machine: asdict(used) for machine, used in sorted(self._found.items())}
