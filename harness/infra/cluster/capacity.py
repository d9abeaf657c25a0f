"""Capacity of an infra cluster: what nodes and quotas have left, what pods take, and whether the largest cell fits.

What pods take is the kubelets' own account, the Summary API through the API server, which asks for the right to `get`
`nodes/proxy`. A node that does not answer is left out.
https://kubernetes.io/docs/reference/instrumentation/node-metrics/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from harness.infra.findings import Finding
from harness.kube import Cluster
from harness.kube.client import Json
from harness.kube.objects import quantity
from harness.kube.resources import NODE, POD, RESOURCE_QUOTA

SCHEDULABLE = "kubevirt.io/schedulable"
ENDED = frozenset({"Succeeded", "Failed"})
GIB = 2**30
MIB = 2**20


@dataclass(frozen=True)
class FreeRoom:
    """CPUs and memory (MiB) that pods have not requested."""

    cpus: float
    memory_mib: int


def free_for_machines(cluster: Cluster) -> FreeRoom:
    """Sum up what the nodes that take machines can allocate less what their pods request."""
    able = for_machines(cluster.list(NODE).items)
    nodes = {n["metadata"]["name"]: n["status"].get("allocatable", {}) for n in able}
    pods = [p for p in cluster.list(POD).items if p["spec"].get("nodeName") in nodes]
    living = [p for p in pods if p.get("status", {}).get("phase") not in ENDED]
    requests = [c.get("resources", {}).get("requests", {}) for p in living for c in p["spec"].get("containers", [])]
    cpus, memory = (_total(nodes.values(), name) - _total(requests, name) for name in ("cpu", "memory"))
    return FreeRoom(max(0.0, float(cpus)), max(0, int(memory / MIB)))


def for_machines(nodes: Iterable[Json]) -> list[Json]:
    """Return the usable nodes on which KubeVirt runs; all usable ones where it has labelled none of them."""
    usable_nodes = [node for node in nodes if usable(node)]
    able = [n for n in usable_nodes if (n["metadata"].get("labels") or {}).get(SCHEDULABLE) == "true"]
    return able or usable_nodes


def usable(node: Mapping[str, Any]) -> bool:
    """Tell whether pods can be scheduled to a node."""
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not node.get("spec", {}).get("unschedulable", False)


def _total(amounts: Iterable[Mapping[str, str]], name: str) -> Decimal:
    return sum((quantity(str(a.get(name, "0"))) for a in amounts), Decimal(0))


@dataclass(frozen=True)
class Need:
    """A cell's demand.

    what: the cell, for a person.  memory_mib, cpus: of all its launcher pods.  machines, storage_gib: how many, and
    their disks together.  largest_mib: of the launcher pod that asks for most: it has to fit on one node.
    required: whether nothing is worth starting where it does not fit; else smaller cells are.
    """

    what: str = "the cell"
    memory_mib: int = 0
    cpus: float = 0.0
    machines: int = 0
    storage_gib: int = 0
    largest_mib: int = 0
    required: bool = True


CLAIMS_PER_MACHINE = 2  # its disk, and the claim in which that is filled where the class has populators
PODS_PER_MACHINE = 2  # a launcher, and an importer or cloner before it
FILE_SYSTEM = Decimal("0.94")  # of a claim is left beside CDI's default overhead


def check_nodes(cluster: Cluster, need: Need) -> Iterator[Finding]:
    """Yield what keeps a cell's machines from finding nodes."""
    nodes = for_machines(cluster.list(NODE).items)
    if not nodes:
        yield Finding("no node is ready and schedulable", "machines run on nodes", "kubectl get nodes")
        return
    most = max(quantity(_allocatable(n).get("memory", "0")) for n in nodes) / MIB
    if need.largest_mib > most:
        yield Finding(
            f"the largest node can allocate {most:.0f} MiB",
            f"a machine of {need.what} asks for {need.largest_mib} MiB, and each machine has to fit on one node",
            "choose a smaller topology (matrix/topologies.yml), or add a larger node",
            fatal=need.required,
        )
    free = free_for_machines(cluster)
    if free.memory_mib < need.memory_mib or free.cpus < need.cpus:
        total = sum(quantity(_allocatable(n).get("memory", "0")) for n in nodes) / MIB
        yield Finding(
            f"{free.memory_mib} MiB and {free.cpus:.1f} CPUs are free on {len(nodes)} nodes ({total:.0f} MiB in all)",
            f"{need.what} needs {need.memory_mib} MiB and {need.cpus:.1f} CPUs",
            "choose a smaller topology, wait for others to end, or see: kubectl describe nodes",
            fatal=need.required,
        )


def _allocatable(node: Mapping[str, Any]) -> Mapping[str, str]:
    allocatable: Mapping[str, str] = node["status"].get("allocatable") or {}
    return allocatable


def check_quota(cluster: Cluster, namespace: str, need: Need) -> Iterator[Finding]:
    """Yield what the quotas of a namespace that cells share do not allow the largest cell, even alone."""
    needed = {
        "requests.memory": Decimal(need.memory_mib) * MIB,
        "memory": Decimal(need.memory_mib) * MIB,
        "requests.cpu": Decimal(str(need.cpus)),
        "cpu": Decimal(str(need.cpus)),
        "pods": Decimal(PODS_PER_MACHINE * need.machines),
        "persistentvolumeclaims": Decimal(CLAIMS_PER_MACHINE * need.machines),
        "requests.storage": Decimal(need.storage_gib) * GIB / FILE_SYSTEM,
        "count/virtualmachines.kubevirt.io": Decimal(need.machines),
    }
    for quota in cluster.list(RESOURCE_QUOTA, namespace).items:
        name, hard = quota["metadata"]["name"], (quota.get("spec") or {}).get("hard") or {}
        for resource, least in needed.items():
            if resource in hard and quantity(str(hard[resource])) < least:
                yield Finding(
                    f"quota {namespace}/{name} allows {hard[resource]} of {resource}",
                    f"{need.what} alone needs {_said(resource, least)}",
                    f"""kubectl patch resourcequota {name} -n {namespace} --type merge -p """
                    f"""'{{"spec":{{"hard":{{"{resource}":"{_said(resource, least)}"}}}}}}'""",
                    fatal=need.required,
                )


def _said(resource: str, amount: Decimal) -> str:
    if resource.endswith("memory"):
        return f"{int(amount / MIB)}Mi"
    return f"{int(amount / GIB) + 1}Gi" if resource.endswith("storage") else f"{amount.normalize():f}"


READ_SECONDS = 5.0  # a node reads a few files for each pod; whoever asks does so again


@dataclass(frozen=True)
class PodUsage:
    """What a pod takes of its node, in MiB.

    memory: its working set.  kept: of that, what the node cannot take back by dropping page cache.
    disk: what the disks of its claims take; 0 where the node does not tell.
    """

    memory: int
    kept: int
    disk: int


@dataclass(frozen=True)
class NodeUsage:
    """What a node has available (MiB) for whoever comes, and what its pods take, by their uid."""

    available: int
    pods: Mapping[str, PodUsage]


def usage_of(cluster: Cluster, nodes: Iterable[str]) -> dict[str, NodeUsage]:
    """Return what nodes say of themselves, by their names.

    Raises:
        Unreachable: the API server does not answer.
    """
    paths = {name: NODE.path(name=name, subresource="proxy/stats/summary") for name in nodes}
    answers = {name: cluster.send("GET", path, read_seconds=READ_SECONDS) for name, path in paths.items()}
    return {
        name: read_summary(answer.body)
        for name, answer in answers.items()
        if answer.code == HTTPStatus.OK and isinstance(answer.body, dict)
    }


def read_summary(body: Mapping[str, Any]) -> NodeUsage:
    """Return what a Summary says."""
    available = int(((body.get("node") or {}).get("memory") or {}).get("availableBytes") or 0)
    return NodeUsage(available // MIB, dict(_pods(body)))


def _pods(body: Mapping[str, Any]) -> Iterator[tuple[str, PodUsage]]:
    for pod in body.get("pods") or []:
        memory = pod.get("memory")
        if not memory:
            continue
        disk = sum(int(v.get("usedBytes") or 0) for v in pod.get("volume") or [] if v.get("pvcRef"))
        taken, kept = (int(memory.get(name) or 0) for name in ("workingSetBytes", "rssBytes"))
        yield str(pod["podRef"]["uid"]), PodUsage(_mib(taken), _mib(kept), _mib(disk))


def _mib(amount: int) -> int:
    return -(-amount // MIB)
