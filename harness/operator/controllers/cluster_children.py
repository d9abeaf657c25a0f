"""What belongs to a ClusterDeployment: a Cluster of its own name, and a MachineSet for each of its sets.

Where a deletion has to wait for a reset, the Cluster has no owner: a deletion in the foreground would take it, and all
that is known of the machines, before they were reset. The controller deletes it then.
"""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.objects import owner_reference
from harness.kube.resources import Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE_SET, UID_LABEL


def cluster_object(deployment: Json, wish: ClusterDeployment) -> Json:
    """Return the Cluster."""
    made = _child(CLUSTER, deployment["metadata"]["name"], deployment)
    if wish.spec.deletion.machines == "Reset":
        made["metadata"]["ownerReferences"] = []
    return made


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
    labels = {CLUSTER_LABEL: meta["name"], UID_LABEL: meta["uid"], LABEL_MANAGED: MANAGED_BY}
    made = kind.manifest(name, meta["namespace"], labels=labels)
    made["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    return made
