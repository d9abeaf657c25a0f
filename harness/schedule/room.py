"""Whether pods find places on nodes: arithmetic on what is free, without any cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
        return replace(
            self,
            memory_mib=self.memory_mib - pod.memory_mib,
            millicpus=self.millicpus - pod.millicpus,
            pods=self.pods - 1,
        )


Nodes = tuple[NodeRoom, ...]


def place(nodes: Nodes, pods: Sequence[PodRequest]) -> Nodes | None:
    """Return what is left when every pod has a place, None when one finds none.

    kube-scheduler spreads pods, and a cell's pods come to it in any order. So they fit only when spreading (each pod to
    the node with the most free memory) works largest first and smallest first; a tight packing that the scheduler
    would not make does not count. On one node that is the sum.
    """
    ordered = sorted(pods)
    return _spread(nodes, reversed(ordered)) if _spread(nodes, ordered) is not None else None


def _spread(nodes: Nodes, pods: Iterable[PodRequest]) -> Nodes | None:
    left = list(nodes)
    for pod in pods:
        fitting = [n for n, node in enumerate(left) if node.holds(pod)]
        if not fitting:
            return None
        chosen = max(fitting, key=lambda n: (left[n].memory_mib, left[n].millicpus, left[n].name))
        left[chosen] = left[chosen].less(pod)
    return tuple(left)


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
        return "no node takes virtual machines"
    parts = [f"{n.name}: {max(0, n.memory_mib)} MiB, {max(0, n.millicpus) / 1000:g} CPUs" for n in nodes]
    return "; ".join(parts)
