"""Placement: what a cell's launcher pods will ask of the infra cluster's nodes, and whether they find places there.

Covers memory and CPU as KubeVirt computes them. Does not cover importer and clone pods: they ask for less than the
machines whose disks they fill, and end before those start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.infra.cluster.capacity import Need
from harness.kube import ApiFailure, Cluster
from harness.kube.resources import KUBEVIRT
from harness.model import Cell, PlannedMachine

# KubeVirt 1.9, GetMemoryOverhead: monitor 25, launcher 100, virtlogd 25, virtqemud 40, qemu 30, IO threads 8, and 32 of
# video memory (MiB). Versions before it counted less.
LAUNCHER_MIB = 228 + 32
VCPU_MIB = 8
PAGE_TABLE_SHARE = 512  # of the guest's memory; only counted for guests with a memory request
CONSOLE_LOG_MIB = 34  # the guest-console-log container asks for 35M and 5m
CONSOLE_LOG_MILLICPUS = 5


@dataclass(frozen=True, order=True)
class PodRequest:
    """What one pod asks of a node: memory in MiB, CPU in thousandths of one."""

    memory_mib: int
    millicpus: int


@dataclass(frozen=True)
class Demand:
    """What a cell asks of an infra cluster, pod by pod, because each pod has to fit on one node."""

    pods: tuple[PodRequest, ...]

    @property
    def machines(self) -> int:
        """Return how many machines the cell has."""
        return len(self.pods)

    @property
    def memory_mib(self) -> int:
        """Return the memory of all pods."""
        return sum(pod.memory_mib for pod in self.pods)

    @property
    def cpus(self) -> float:
        """Return the CPUs of all pods."""
        return sum(pod.millicpus for pod in self.pods) / 1000

    def __str__(self) -> str:
        machines = "1 machine" if self.machines == 1 else f"{self.machines} machines"
        return f"{self.memory_mib} MiB and {self.cpus:g} CPUs on {machines}"


@dataclass(frozen=True)
class Rules:
    """The settings of a KubeVirt by which launcher pods' requests are computed, with KubeVirt's defaults.

    cpu_allocation_ratio: vCPUs per requested CPU.  memory_overcommit: guest memory in percent of what is requested for
    it.  overhead_ratio: factor on the launcher's own memory.
    """

    cpu_allocation_ratio: int = 10
    memory_overcommit: int = 100
    overhead_ratio: float = 1.0


@dataclass(frozen=True)
class Limits:
    """Caps on all cells that a run holds at the same time; None caps nothing. Memory is in MiB, as pods request it."""

    memory_mib: int | None = None
    cpus: float | None = None
    machines: int | None = None
    cells: int | None = None

    def refusal(self, held: Sequence[Demand], asked: Demand) -> str:
        """Return which cap a further cell would break, "" when none."""
        every = (*held, asked)
        caps: tuple[tuple[str, float | None, Callable[[Demand], float]], ...] = (
            ("MiB of memory", self.memory_mib, lambda demand: demand.memory_mib),
            ("CPUs", self.cpus, lambda demand: demand.cpus),
            ("machines", self.machines, lambda demand: demand.machines),
            ("cells", self.cells, lambda demand: 1),
        )
        for unit, most, amount in caps:
            if most is not None and (together := round(sum(map(amount, every)), 3)) > most:
                return f"the run would hold {together:g} {unit}, its limit is {most:g}"
        return ""


@dataclass(frozen=True)
class NodeRoom:
    """What one node has free: memory in MiB, CPU in thousandths of one, and how many more pods it takes."""

    name: str
    memory_mib: int
    millicpus: int
    pods: int

    def holds(self, pod: PodRequest) -> bool:
        """Tell whether a pod finds room here."""
        return pod.memory_mib <= self.memory_mib and pod.millicpus <= self.millicpus and self.pods >= 1

    def less(self, pod: PodRequest) -> NodeRoom:
        """Return what is left beside a pod; negative when more is bound to the node than it has."""
        return NodeRoom(self.name, self.memory_mib - pod.memory_mib, self.millicpus - pod.millicpus, self.pods - 1)


Nodes = tuple[NodeRoom, ...]
Amounts = tuple[int, int, int]  # memory in MiB, thousandths of a CPU, pods
NEVER: Amounts = (2**62, 2**62, 2**62)


def rules_of(cluster: Cluster) -> Rules:
    """Return the settings of the cluster's KubeVirt; the defaults where there is none or it may not be read."""
    try:
        installations = cluster.list(KUBEVIRT).items
    except ApiFailure as failure:
        if not (failure.forbidden or failure.not_found):
            raise
        installations = []
    configuration: Mapping[str, Any] = (
        ((installations[0].get("spec") or {}).get("configuration") or {}) if installations else {}
    )
    developer: Mapping[str, Any] = configuration.get("developerConfiguration") or {}
    return Rules(
        cpu_allocation_ratio=int(developer.get("cpuAllocationRatio") or Rules.cpu_allocation_ratio),
        memory_overcommit=int(developer.get("memoryOvercommit") or Rules.memory_overcommit),
        overhead_ratio=float(configuration.get("additionalGuestMemoryOverheadRatio") or Rules.overhead_ratio),
    )


def demand_of(cell: Cell, rules: Rules | None = None, asked: Mapping[str, int] | None = None) -> Demand:
    """Return what a cell's launcher pods will request: never too little, and hardly too much.

    Args:
        asked: the memory (MiB) that is requested for machines by name, where that is not what they declare.
    """
    known, sizes = rules or Rules(), asked or {}
    return Demand(tuple(pod_of(machine, known, sizes.get(machine.name)) for machine in cell.machines))


def need_of(cells: Sequence[Cell], rules: Rules | None = None) -> Need:
    """Return what the largest of several cells needs: most memory, and of any cell's machines the largest."""
    if not cells:
        return Need()
    demands = {cell.id: demand_of(cell, rules) for cell in cells}
    cell = max(cells, key=lambda c: demands[c.id].memory_mib)
    demand = demands[cell.id]
    pods = [pod for of_cell in demands.values() for pod in of_cell.pods]
    return Need(
        what=f"the plan's largest cell {cell.id}",
        memory_mib=demand.memory_mib,
        cpus=demand.cpus,
        machines=demand.machines,
        storage_gib=sum(machine.disk_gib for machine in cell.machines),
        largest_mib=max(pod.memory_mib for pod in pods),
        required=False,
    )


def pod_of(machine: PlannedMachine, rules: Rules, asked: int | None = None) -> PodRequest:
    """Return what one machine's launcher pod will request.

    Args:
        asked: the memory (MiB) that its instance requests, all of the launcher's own included; None for a machine that
            requests what it declares.
    """
    if asked is not None:
        return PodRequest(asked + CONSOLE_LOG_MIB, _millicpus(machine, rules))
    overhead = LAUNCHER_MIB + VCPU_MIB * machine.cpus + machine.memory_mib / PAGE_TABLE_SHARE
    guest = machine.memory_mib * 100 / rules.memory_overcommit
    return PodRequest(
        memory_mib=math.ceil(guest + overhead * max(1.0, rules.overhead_ratio)) + CONSOLE_LOG_MIB,
        millicpus=_millicpus(machine, rules),
    )


def _millicpus(machine: PlannedMachine, rules: Rules) -> int:
    return math.ceil(1000 * machine.cpus / rules.cpu_allocation_ratio) + CONSOLE_LOG_MILLICPUS


def remainder(pods: Sequence[PodRequest], bound: Iterable[PodRequest]) -> tuple[PodRequest, ...]:
    """Return those of a cell's expected pods that are not among its bound ones; each takes the nearest in memory."""
    left = sorted(pods)
    for there in bound:
        if left:
            left.remove(min(left, key=lambda pod: abs(pod.memory_mib - there.memory_mib)))
    return tuple(left)


def all_fit(nodes: Nodes, pods: Sequence[PodRequest]) -> bool:
    """Tell whether every pod is sure to find a node, in whatever order and wherever the scheduler puts the others.

    A packing that only a clever scheduler finds does not count: a cell would then hold some of its machines and wait
    for the rest. So for each pod: all others together must be too little to keep it off every node that could take it.
    On one node that is the sum; on several it leaves up to one machine's size free on each.
    """
    kinds = {_amounts_of(pod) for pod in pods}
    together = tuple(map(sum, zip(*map(_amounts_of, pods), strict=True)))
    return all(_finds_a_node(nodes, own, together, kinds) for own in kinds)


def _finds_a_node(nodes: Nodes, own: Amounts, together: Sequence[int], kinds: Collection[Amounts]) -> bool:
    """Tell whether a pod has a node whatever the others do.

    Others keep it off a node by leaving too little of one resource there. Whichever they choose, it costs them some of
    each resource, because their pods are whole pods. Where the cheapest ways for all nodes sum up to more of any
    resource than the others have together, one node is left.
    """
    others = tuple(whole - part for whole, part in zip(together, own, strict=True))
    spent = [0] * len(own)
    for node in nodes:
        room = (node.memory_mib, node.millicpus, node.pods)
        if any(part > there for part, there in zip(own, room, strict=True)):
            continue
        ways = [
            cost
            for scarce in range(len(own))
            if _at_most(cost := _cost(scarce, room[scarce] - own[scarce] + 1, kinds), room) and _at_most(cost, others)
        ]
        if not ways:
            return True
        spent = [sum_ + min(way[n] for way in ways) for n, sum_ in enumerate(spent)]
    return any(cost > there for cost, there in zip(spent, others, strict=True))


def _cost(scarce: int, amount: int, kinds: Collection[Amounts]) -> Amounts:
    """Return the least of each resource that pods have who take this amount of one; NEVER if none take any."""
    taking = [kind for kind in kinds if kind[scarce] > 0]
    if not taking:
        return NEVER
    memory, millicpus, count = (
        max(min(kind[n] for kind in taking), min(amount * kind[n] // kind[scarce] for kind in taking)) for n in range(3)
    )
    return memory, millicpus, count


def _at_most(cost: Amounts, there: Sequence[int]) -> bool:
    return all(part <= whole for part, whole in zip(cost, there, strict=True))


def _amounts_of(pod: PodRequest) -> Amounts:
    return pod.memory_mib, pod.millicpus, 1


def describe(nodes: Nodes) -> str:
    """Say what nodes have free, for a person."""
    if not nodes:
        return "no node can run virtual machines"
    parts = [f"{n.name}: {max(0, n.memory_mib)} MiB, {max(0, n.millicpus) / 1000:g} CPUs" for n in nodes]
    return "; ".join(parts)
