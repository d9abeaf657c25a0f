"""What an infra cluster's nodes have free for launcher pods, and which pods are there.

A node counts when launcher pods can go there: ready, schedulable, labelled by KubeVirt, without a taint that keeps
ordinary pods away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from harness.embedded.node.registration import MACHINES_ONLY
from harness.infra.cluster.capacity import ENDED, MIB, SCHEDULABLE, NodeUsage, usable, usage_of
from harness.infra.pods import NAMESPACE_NAME
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.objects import quantity
from harness.kube.resources import NODE, POD, RESOURCE_QUOTA
from harness.model import LABEL_CELL, LABEL_RUN
from harness.schedule.demand import PodRequest
from harness.schedule.room import NodeRoom, Nodes

LAUNCHER = ("kubevirt.io", "virt-launcher")
UNSEEN = "the infra cluster, whose nodes cannot be listed"
UNBOUNDED = 10**9
REPELLING = frozenset({"NoSchedule", "NoExecute"})
LASTING_OWNERS = frozenset({"DaemonSet", "Node"})  # whose pods stay on a node whatever else goes


@dataclass(frozen=True)
class Bound:
    """A pod that counts: its node ("" while it has none), what it asks for, whose cell's machine it is ("" of none).

    lasting: it stays on its node for as long as the node does; as the machine that runs the infra cluster's own pods.
    """

    node: str
    request: PodRequest
    run: str = ""
    cell: str = ""
    lasting: bool = False


@dataclass(frozen=True)
class Survey:
    """What the usable nodes can allocate, and the pods that have not ended.

    quota: the same of the namespace that cells share, its quota taken for a node: cells have to fit into both.
    left: what nodes have left (MiB) by their own account, for machines that are not there yet, whatever was requested.
    """

    nodes: Nodes
    pods: tuple[Bound, ...]
    quota: Survey | None = None
    left: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def free(self) -> Nodes:
        """Return what the nodes have left beside all pods that are bound to them, by requests and by their account."""
        found = _less(self.nodes, self.pods)
        return tuple(replace(n, memory_mib=min(n.memory_mib, self.left.get(n.name, n.memory_mib))) for n in found)

    def empty(self) -> Nodes:
        """Return what the nodes would have left beside the pods that never go."""
        return _less(self.nodes, (pod for pod in self.pods if pod.lasting))

    def machines_of(self, run: str, cell: str) -> tuple[Bound, ...]:
        """Return the launcher pods of a cell, those that wait for a node included."""
        return tuple(pod for pod in self.pods if (pod.run, pod.cell) == (run, cell))


def _less(nodes: Nodes, pods: Iterable[Bound]) -> Nodes:
    left = {node.name: node for node in nodes}
    for pod in pods:
        if pod.node in left:
            left[pod.node] = left[pod.node].less(pod.request)
    return tuple(left.values())


def survey(cluster: Cluster, namespace: str | None = None, spare_mib: int | None = None) -> Survey:
    """Look at an infra cluster's nodes and pods and the quota of the namespace that cells share, or at what one may.

    Args:
        spare_mib: memory of a node that is left free beside all machines, where nodes are asked what they have
            available; None where requests alone count.
    """
    try:
        nodes = tuple(_room(node) for node in cluster.list(NODE).items if takes_machines(node))
        pods = cluster.list(POD).items
    except ApiFailure as failure:
        if not failure.forbidden:
            raise
        return _allotted(cluster, namespace)
    quota = None if namespace is None else _allotted(cluster, namespace)
    living = [pod for pod in pods if _lives(pod)]
    left = {} if spare_mib is None else _left(usage_of(cluster, [node.name for node in nodes]), living, spare_mib)
    return Survey(nodes, tuple(map(_bound, living)), quota, left)


def _left(nodes: Mapping[str, NodeUsage], pods: Iterable[Json], spare_mib: int) -> dict[str, int]:
    """Return what nodes have available beside what the pods on them were promised and have not taken yet.

    A pod that takes more than it was promised has no part in this: what it takes is not available any more.
    """
    left = {name: usage.available - spare_mib for name, usage in nodes.items()}
    for pod in pods:
        node = pod["spec"].get("nodeName") or ""
        if node in left:
            used = nodes[node].pods.get(pod["metadata"]["uid"])
            left[node] -= max(0, request_of(pod["spec"]).memory_mib - (used.kept if used is not None else 0))
    return left


def _lives(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED


def _allotted(cluster: Cluster, namespace: str | None) -> Survey:
    """Return what quotas allow as one node; without any the cluster's own scheduler is the only bound.

    A pod of the namespace takes its part of the quota from the moment it exists, whether it has a node or not.
    """
    if namespace is None:
        return Survey((NodeRoom(UNSEEN, UNBOUNDED, UNBOUNDED, UNBOUNDED),), ())
    hard = [(q.get("spec") or {}).get("hard") or {} for q in cluster.list(RESOURCE_QUOTA, namespace).items]
    name = f"the quota of {namespace}"
    room = NodeRoom(
        name=name,
        memory_mib=_least(hard, ("requests.memory", "memory"), Decimal(MIB)),
        millicpus=_least(hard, ("requests.cpu", "cpu"), Decimal(1) / 1000),
        pods=_least(hard, ("pods", "count/pods"), Decimal(1)),
    )
    pods = (pod for pod in cluster.list(POD, namespace).items if _lives(pod))
    return Survey((room,), tuple(replace(_bound(pod), node=name) for pod in pods))


def _least(hard: Iterable[Mapping[str, Any]], names: Sequence[str], unit: Decimal) -> int:
    amounts = [quantity(str(limits[name])) / unit for limits in hard for name in names if name in limits]
    return int(min(amounts, default=Decimal(UNBOUNDED)))


def takes_machines(node: Mapping[str, Any]) -> bool:
    """Tell whether launcher pods can be scheduled to a node."""
    taints = [t for t in (node.get("spec") or {}).get("taints") or [] if t.get("key") != MACHINES_ONLY["key"]]
    labels = node.get("metadata", {}).get("labels") or {}
    return usable(node) and labels.get(SCHEDULABLE) == "true" and not any(t.get("effect") in REPELLING for t in taints)


def _room(node: Json) -> NodeRoom:
    allocatable = node["status"].get("allocatable") or {}
    return NodeRoom(
        name=node["metadata"]["name"],
        memory_mib=int(quantity(allocatable.get("memory", "0")) / MIB),
        millicpus=int(quantity(allocatable.get("cpu", "0")) * 1000),
        pods=int(quantity(allocatable.get("pods", "0"))),
    )


def _bound(pod: Json) -> Bound:
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    machine = labels.get(LAUNCHER[0]) == LAUNCHER[1]
    return Bound(
        node=pod["spec"].get("nodeName") or "",
        request=request_of(pod["spec"]),
        run=labels.get(LABEL_RUN, "") if machine else "",
        cell=labels.get(LABEL_CELL, "") if machine else "",
        lasting=meta.get("namespace") == NAMESPACE_NAME
        or any(owner.get("kind") in LASTING_OWNERS for owner in meta.get("ownerReferences") or []),
    )


def request_of(spec: Mapping[str, Any]) -> PodRequest:
    """Return what the scheduler counts for a pod.

    That is the sum of its containers and sidecars or, where that is more, an init container beside the sidecars started
    before it; the pod's own `resources` override both; its runtime class's overhead is added.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    memory, cpu = (_effective(spec, name) for name in ("memory", "cpu"))
    return PodRequest(memory_mib=math.ceil(memory / MIB), millicpus=math.ceil(cpu * 1000))


def _effective(spec: Mapping[str, Any], name: str) -> Decimal:
    sidecars = highest = Decimal(0)
    for container in spec.get("initContainers") or []:
        asked = _asked(container, name)
        highest = max(highest, sidecars + asked)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
    together = sidecars + sum((_asked(c, name) for c in spec.get("containers") or []), Decimal(0))
    own = ((spec.get("resources") or {}).get("requests") or {}).get(name)
    counted = quantity(str(own)) if own is not None else max(highest, together)
    return counted + quantity(str((spec.get("overhead") or {}).get(name, "0")))


def _asked(container: Mapping[str, Any], name: str) -> Decimal:
    return quantity(str(((container.get("resources") or {}).get("requests") or {}).get(name, "0")))
