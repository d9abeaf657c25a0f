"""Whether the largest cell fits into an infra cluster: into its nodes, and into the quota of a shared namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from harness.infra.cluster.need import Need
from harness.infra.cluster.nodes import GIB, MIB, for_machines, free_for_machines, quantity
from harness.infra.findings import Finding
from harness.kube import Cluster
from harness.kube.resources import NODE, RESOURCE_QUOTA

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
    found: Mapping[str, str] = node["status"].get("allocatable") or {}
    return found


def check_quota(cluster: Cluster, namespace: str, need: Need) -> Iterator[Finding]:
    """Yield what the quotas of a namespace that cells share do not allow the largest cell, even alone."""
    wanted = {
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
        for resource, least in wanted.items():
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
