"""What a ClusterDeployment owns: a Cluster of its own name, and a MachineSet for each of its sets.

They do not block their owner's deletion: one in the foreground would take them before the machines were reset.
"""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.objects import owner_reference
from harness.kube.resources import Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE_SET


def cluster_object(deployment: Json) -> Json:
    """Return the Cluster."""
    return _child(CLUSTER, deployment["metadata"]["name"], deployment)


def machine_sets(deployment: Json, wish: ClusterDeployment) -> list[Json]:
    """Return the MachineSets, with their defaults as the API server fills them in."""
    name = deployment["metadata"]["name"]
    return [
        {
            **_child(MACHINE_SET, f"{name}-{one.name}", deployment),
            "spec": one.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for one in wish.spec.machine_sets
    ]


def _child(kind: Resource, name: str, deployment: Json) -> Json:
    meta = deployment["metadata"]
    made = kind.manifest(name, meta["namespace"], labels={CLUSTER_LABEL: meta["name"], LABEL_MANAGED: MANAGED_BY})
    owner = {**owner_reference(deployment, CLUSTER_DEPLOYMENT), "blockOwnerDeletion": False}
    made["metadata"]["ownerReferences"] = [owner]
    return made
