"""The machines that a cluster has claimed, as hosts of an inventory in a stable order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from harness.operator.api.cluster import AppliedHost
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine, KeyRef
from harness.operator.api.resources import DELETE_ANNOTATION
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, WantedSet


@dataclass(frozen=True)
class Host:
    """A claimed machine.

    name: in the inventory, and as a node.  machine: its Machine.  set_name: of the set that it was claimed for.
    groups: of the inventory; none where the spec has no such set any more.
    made: the operator made the machine.
    key: the Secret with the SSH key.  through: the VirtualMachineInstance that connections lead through, "" for none.
    made: it goes when its cluster has no use for it; nothing on it has to be undone.
    """

    name: str
    machine: str
    set_name: str
    groups: tuple[str, ...]
    address: str
    port: int
    user: str
    key: KeyRef
    through: str
    made: bool = False


def applied_host(host: Host) -> AppliedHost:
    """Return a host as a Cluster remembers it."""
    return AppliedHost(**{one.name: getattr(host, one.name) for one in fields(Host)})


def remembered_host(host: AppliedHost) -> Host:
    """Return a host that a Cluster remembers."""
    return Host(**{one.name: getattr(host, one.name) for one in fields(Host)})


def hosts_of(cd: ClusterDeployment, machines: Iterable[DeclaredMachine]) -> tuple[Host, ...]:
    """Return the machines that a cluster has claimed, in the inventory's order."""
    groups = {one.name: groups_of(one, cd.spec.machine_sets) for one in cd.spec.machine_sets}
    mine = (_host(machine, groups) for machine in machines if _claimed_by(cd, machine))
    return in_order(mine, cd.spec.machine_sets)


def in_order(hosts: Iterable[Host], sets: Iterable[WantedSet]) -> tuple[Host, ...]:
    """Return hosts in the inventory's order: control planes first, then as the sets are, then by name."""
    places = {one.name: number for number, one in enumerate(sets)}
    return tuple(
        sorted(
            hosts,
            key=lambda host: (
                GROUPS[CONTROL_PLANE] not in host.groups,
                places.get(host.set_name, len(places)),
                natural(host.name),
            ),
        )
    )


def groups_of(one: WantedSet, sets: Iterable[WantedSet]) -> tuple[str, ...]:
    """Return the inventory groups of a set's machines. Without a set for etcd, it runs on the control planes."""
    stacked = not any(other.has(ETCD) for other in sets)
    roles = {*one.roles, *([ETCD] if stacked and one.has(CONTROL_PLANE) else [])}
    return tuple(group for role, group in GROUPS.items() if role in roles)


def _claimed_by(cd: ClusterDeployment, machine: DeclaredMachine) -> bool:
    """Tell whether a machine is claimed by this very object; one of the same name may have come before it."""
    claim = machine.spec.claim
    own = (cd.metadata.namespace, cd.metadata.name, cd.metadata.uid)
    return claim is not None and (machine.metadata.namespace, claim.cluster, claim.uid) == own


def _host(machine: DeclaredMachine, groups: Mapping[str, tuple[str, ...]]) -> Host:
    spec, claim = machine.spec, machine.spec.claim
    set_name = claim.set_name if claim is not None else ""
    return Host(
        name=machine.hostname,
        machine=machine.metadata.name,
        set_name=set_name,
        groups=groups.get(set_name, ()),
        address=machine.address,
        port=spec.port,
        user=spec.user,
        key=spec.key_ref,
        through=machine.instance,
        made=machine.made,
    )


def natural(name: str) -> list[tuple[int, str]]:
    """Return what orders names as people do: w-2 before w-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def scale_in_order(machines: Iterable[DeclaredMachine]) -> list[str]:
    """Return the names of machines: not ready ones first, then those that a person marked, then the last made."""
    latest = sorted(machines, key=lambda one: (one.metadata.creation_timestamp or "", natural(one.metadata.name)))
    latest.reverse()
    return [one.metadata.name for one in sorted(latest, key=_rank)]


def _rank(machine: DeclaredMachine) -> tuple[bool, bool]:
    return machine.status.phase == "Ready", DELETE_ANNOTATION not in machine.metadata.annotations
