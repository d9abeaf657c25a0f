"""What the nodes of an infra cluster have left for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Json
from harness.kube.resources import NODE, POD

SCHEDULABLE = "kubevirt.io/schedulable"
ENDED = frozenset({"Succeeded", "Failed"})
GIB = 2**30
MIB = 2**20
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
SUFFIXES = {
    **{letter + "i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{letter: Decimal(1000) ** -power for power, letter in enumerate("mun", start=1)},
}


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
    found = [node for node in nodes if usable(node)]
    able = [n for n in found if (n["metadata"].get("labels") or {}).get(SCHEDULABLE) == "true"]
    return able or found


def usable(node: Mapping[str, Any]) -> bool:
    """Tell whether pods can be scheduled to a node."""
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not node.get("spec", {}).get("unschedulable", False)


def quantity(text: str) -> Decimal:
    """Return the number that a Kubernetes quantity stands for ("1500m" is 1.5, "2Gi" is 2147483648)."""
    for suffix in (text[-2:], text[-1:]):
        if suffix in SUFFIXES:
            return Decimal(text[: -len(suffix)]) * SUFFIXES[suffix]
    return Decimal(text)


def _total(amounts: Iterable[Mapping[str, str]], name: str) -> Decimal:
    return sum((quantity(str(a.get(name, "0"))) for a in amounts), Decimal(0))
