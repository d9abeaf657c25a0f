"""Machines through the KubeVirt API: create them, wait for their addresses, fail fast on what can never come right."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.cell.golden import MOST_RESTARTS
from harness.cell.manifests import CellPlan, GoldenImage, machine
from harness.cell.place import Place, owned_by
from harness.cell.site import Site
from harness.errors import InfraError, InfraRetriable
from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_VOLUME, POD, SECRET, VM, VMI
from harness.model import Machine, PlannedMachine
from harness.until import Deadline, NotYet, until

SSH_PORT = 22
PULL_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff"})
MOST_START_FAILURES = 2


def create_machine(site: Site, plan: CellPlan, planned: PlannedMachine, image: GoldenImage) -> None:
    """Create one machine's disk, cloud-init secret and VirtualMachine; what is already there stays."""
    disk, secret, vm = machine(plan, planned, image, directory=site.templates)
    volume = site.cluster.ensure(DATA_VOLUME, disk)
    secret["metadata"]["ownerReferences"] = [owned_by(volume)]  # goes with the disk: no right to delete it is needed
    site.cluster.create_if_absent(SECRET, secret)
    site.cluster.create_if_absent(VM, vm)


@dataclass
class Watchpoint:
    """Since when a machine has been in a state that only sometimes comes right."""

    since: dict[str, float] = field(default_factory=dict)

    def lasted(self, state: str) -> float:
        """Return for how many seconds this state has been seen; every other state is forgotten."""
        self.since = {state: self.since.get(state, time.monotonic())}
        return time.monotonic() - self.since[state]


def wait_for_address(site: Site, place: Place, planned: PlannedMachine, user: str) -> Machine:
    """Wait until a machine runs and its launcher pod has an address.

    The address is the launcher pod's: the VMI's own may be wrong without a guest agent, or flip with one.

    Raises:
        InfraError: the machine or its disk can never come up.
        InfraRetriable: no room in the infra cluster for too long, or time is up.
    """
    watchpoint = Watchpoint()
    namespace, name = place.namespace, place.name(planned.name)

    def probe() -> str | NotYet:
        vm = site.cluster.get(VM, name, namespace)
        if vm is None:
            raise InfraError(f"VirtualMachine {namespace}/{name} was deleted while it was waited for")
        status = vm.get("status") or {}
        word = status.get("printableStatus", "")
        _fail_fast(site, place, planned, status, watchpoint)
        vmi = site.cluster.get(VMI, name, namespace)
        if vmi is None or word != "Running":
            return NotYet(word or "no status yet")
        phase = (vmi.get("status") or {}).get("phase")
        if phase != "Running":
            return NotYet(f"VMI phase {phase}")
        return launcher_address(site.cluster, namespace, vmi) or NotYet("its launcher pod has no address")

    address = until(
        probe,
        deadline=Deadline.after(site.timeouts.machine_address),
        what=f"machine {planned.name} has an address",
        describe=lambda: describe_machine(site.cluster, namespace, name),
        interval=0.15,
    )
    return Machine(planned=planned, address=address, port=SSH_PORT, user=user)


def _fail_fast(site: Site, place: Place, planned: PlannedMachine, status: Json, watchpoint: Watchpoint) -> None:
    cluster, namespace, own = site.cluster, place.namespace, place.name(planned.name)
    word = status.get("printableStatus", "")
    lasted = watchpoint.lasted(word)
    name = f"{namespace}/{own}"
    if word == "DataVolumeError":
        _fail_on_disk(cluster, namespace, own)
    elif word == "ErrorUnschedulable" and lasted > site.timeouts.unschedulable:
        raise InfraRetriable(
            f"no room for machine {name} for {lasted:.0f} s: {unschedulable_reason(cluster, namespace, own)}",
            hint=f"it wants {planned.memory_mib} MiB; free memory on the infra cluster or choose a smaller topology",
        )
    elif (why := _sync_failure(cluster, namespace, own, word)) and lasted > site.timeouts.unschedulable:
        raise InfraRetriable(
            f"machine {name} has not been started for {lasted:.0f} s: {why}",
            hint="the infra cluster's own logs say more",
            detail=_events(cluster, namespace, own),
        )
    elif word == "ErrorPvcNotFound" and lasted > site.timeouts.unschedulable:
        raise InfraError(f"the disk of machine {name} does not exist", detail=_events(cluster, namespace, own))
    elif word in PULL_ERRORS and lasted > site.timeouts.unschedulable:
        raise InfraError(f"machine {name}: {word}", detail=_events(cluster, namespace, own))
    elif word == "CrashLoopBackOff" or (word == "Stopped" and status.get("created")):
        raise InfraError(f"machine {name} does not stay up: {word}", detail=describe_machine(cluster, namespace, own))
    failures = (status.get("startFailure") or {}).get("consecutiveFailCount", 0)
    if failures >= MOST_START_FAILURES:
        raise InfraError(f"machine {name} failed to start {failures} times", detail=_events(cluster, namespace, own))


def _sync_failure(cluster: Cluster, namespace: str, name: str, word: str) -> str:
    """Return why a machine that should be starting is not, "" when its VMI reports no failure."""
    if word != "Starting":
        return ""
    found = conditions(cluster.get(VMI, name, namespace))
    return next(
        (
            str(c.get("message") or c.get("reason"))
            for c in found
            if c["type"] == "Synchronized" and c["status"] == "False"
        ),
        "",
    )


def _fail_on_disk(cluster: Cluster, namespace: str, name: str) -> None:
    """Raise when a machine's disk can never come right; an import that still retries is left alone."""
    volume = cluster.get(DATA_VOLUME, name, namespace) or {}
    status = volume.get("status") or {}
    if status.get("phase") == "Failed" or int(status.get("restartCount") or 0) >= MOST_RESTARTS:
        raise InfraError(
            f"the disk of machine {namespace}/{name} cannot be made: {status.get('phase')}",
            detail="\n".join(cluster.events_of(namespace, name)),
        )


def launcher_pod(cluster: Cluster, namespace: str, vmi: Json) -> Json | None:
    """Return the newest launcher pod of a VMI."""
    pods = cluster.list(POD, namespace, labels=f"kubevirt.io/created-by={vmi['metadata']['uid']}").items
    return max(pods, key=lambda p: str(p["metadata"]["creationTimestamp"]), default=None)


def launcher_address(cluster: Cluster, namespace: str, vmi: Json) -> str:
    """Return the address of a VMI's launcher pod, "" while it has none."""
    pod = launcher_pod(cluster, namespace, vmi)
    return str((pod or {}).get("status", {}).get("podIP") or "")


def unschedulable_reason(cluster: Cluster, namespace: str, name: str) -> str:
    """Return what the scheduler says about a launcher pod; the VMI's copy of it may be stale."""
    vmi = cluster.get(VMI, name, namespace)
    pod = launcher_pod(cluster, namespace, vmi) if vmi is not None else None
    return next(
        (c.get("message", "") for c in conditions(pod) if c["type"] == "PodScheduled" and c["status"] == "False"),
        "the scheduler gave no reason",
    )


def conditions(obj: Json | None) -> Iterable[Json]:
    """Return an object's conditions, none for no object."""
    found: Iterable[Json] = ((obj or {}).get("status") or {}).get("conditions") or []
    return found


def _events(cluster: Cluster, namespace: str, name: str) -> str:
    return "\n".join(cluster.events_of(namespace, name))


def describe_machine(cluster: Cluster, namespace: str, name: str) -> str:
    """Return a machine's conditions and last events, for a person."""
    lines = []
    for resource in (VM, VMI):
        found = conditions(cluster.get(resource, name, namespace))
        lines += [
            f"{resource.kind} {c['type']}={c['status']} {c.get('reason', '')} {c.get('message', '')}".rstrip()
            for c in found
        ]
    return "\n".join([*lines, *cluster.events_of(namespace, name)[-10:]])
