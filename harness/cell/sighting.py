"""Machines as they were when they came up, and whether they still are the same.

A machine that is killed, replaced or moved in mid-run looks like a failure of the product to whoever only sees tasks
and checks fail. Its instance, launcher and address tell. https://kubevirt.io/user-guide/compute/live_migration/
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.cell import launchers
from harness.cell.place import Place
from harness.kube.client import Cluster, Json
from harness.kube.resources import POD, VMI
from harness.model import Machine


@dataclass(frozen=True)
class Sighting:
    """Which instance and launcher a machine is: their uids, its node and its address."""

    machine: str
    instance: str
    launcher: str
    node: str
    address: str


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
    missed = [(seen, instances.get(place.name(seen.machine))) for seen in before if seen.machine in names]
    said = ((seen, _change(seen, vmi, pods.get(vmi["metadata"]["uid"]) if vmi else None)) for seen, vmi in missed)
    return [f"machine {seen.machine} {change}" for seen, change in said if change]


def _change(seen: Sighting, vmi: Json | None, pod: Json | None) -> str:
    if vmi is None:
        return "is gone: its VirtualMachineInstance was deleted"
    if vmi["metadata"]["uid"] != seen.instance:
        return "was restarted: it has another VirtualMachineInstance than before, with an empty memory"
    status = vmi.get("status") or {}
    if died := launchers.died_of(pod):
        return f"died: {died}"
    if vmi["metadata"].get("deletionTimestamp"):
        return "is being deleted: by a drain of its node, a reaper or a person"
    if status.get("phase") == launchers.SUCCEEDED:
        return f"has ended: {launchers.SHUT_DOWN}"
    if status.get("phase") != "Running":
        return f"is {status.get('phase')}: {status.get('reason') or 'its instance gives no reason'}"
    return _moved(seen, status, pod)


def _moved(seen: Sighting, status: Json, pod: Json | None) -> str:
    active = status.get("activePods") or {}
    if active and seen.launcher and seen.launcher not in active:
        return f"was moved from node {seen.node} to {status.get('nodeName')}: another launcher pod runs it"
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return "lost its launcher pod, although its instance still reports Running"
    address = launchers.address_of(pod)
    return f"has another address: {address or 'none'} instead of {seen.address}" if address != seen.address else ""
