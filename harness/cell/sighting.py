"""A cell's machines as they were when they came up, and which of them are not the same any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from harness.cell.place import Place
from harness.kube.client import Cluster, Json
from harness.kube.resources import POD, VMI
from harness.machines.kubevirt import launchers
from harness.machines.kubevirt.sighting import Sighting, change
from harness.model import Machine


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
    said = ((seen, change(seen, vmi, pods.get(vmi["metadata"]["uid"]) if vmi else None)) for seen, vmi in missed)
    return [f"machine {seen.machine} {became}" for seen, became in said if became]
