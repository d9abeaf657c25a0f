"""Whether pods find places on nodes: arithmetic on what is free, without any cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from harness.schedule.demand import PodRequest


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


def remainder(pods: Sequence[PodRequest], bound: Iterable[PodRequest]) -> tuple[PodRequest, ...]:
    """Return those of a cell's expected pods that are not among its bound ones; each takes the nearest in memory."""
    left = sorted(pods)
    for there in bound:
        if left:
            left.remove(min(left, key=lambda pod: abs(pod.memory_mib - there.memory_mib)))
    return tuple(left)


def describe(nodes: Nodes) -> str:
    """Say what nodes have free, for a person."""
    if not nodes:
        return "no node can run virtual machines"
    parts = [f"{n.name}: {max(0, n.memory_mib)} MiB, {max(0, n.millicpus) / 1000:g} CPUs" for n in nodes]
    return "; ".join(parts)
