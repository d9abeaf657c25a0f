"""What belongs to a ClusterDeployment: a Cluster of its own name, and a MachineSet for each of its sets.

Where a deletion has to wait for a reset, the Cluster has no owner: a deletion in the foreground would take it, and all
that is known of the machines, before they were reset. The controller of ClusterDeployments deletes it then.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from harness.errors import InfraRetriable
from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer, key_of, labels_of
from harness.kube.objects import controller_of, deleting, dig, owner_reference
from harness.kube.reconcile import owner_key
from harness.kube.resources import Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.conditions import new, with_conditions
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE_SET, UID_LABEL
from harness.operator.controllers.cluster_view import of_uid, owned_by

EDITED = "Edited"


def derived(machine_set: Json) -> str:
    """Return why a MachineSet is not edited, and what to edit instead."""
    name, owner = machine_set["metadata"]["name"], (controller_of(machine_set) or {}).get("name", "")
    source = f"ClusterDeployment {owner}".rstrip()
    return f"MachineSet {name} is derived: edit spec.machineSets of {source} instead"


def told(sets: Informer, found: Json, wanted: Json, deployment: Json) -> Json:
    """Return a MachineSet as it is once its condition says that an edit is put back; as it was if nobody edited it.

    While the spec of the ClusterDeployment is the one that its status is about, its sets have not changed by it.
    """
    known = dig(deployment, "status", "observedGeneration") == deployment["metadata"].get("generation")
    if found.get("spec") == wanted.get("spec") or not known:
        return found
    generation = found["metadata"].get("generation")
    said = new(EDITED, True, "PutBack", derived(found), datetime.now(UTC), generation)
    conditions = with_conditions(dig(found, "status", "conditions") or [], said)
    return sets.merge_status(found, {"conditions": conditions})


def cluster_object(deployment: Json, wish: ClusterDeployment) -> Json:
    """Return the Cluster."""
    made = _child(CLUSTER, deployment["metadata"]["name"], deployment)
    if wish.spec.deletion.machines == "Reset":
        made["metadata"]["ownerReferences"] = []
    return made


def set_name(cluster: str, wanted: str) -> str:
    """Return the name of the MachineSet of a cluster's set.

    Cluster `a-b` with set `c` and cluster `a` with set `b-c` must not meet. So a set with a hyphen gets a digest behind
    it, which begins with a digit, as no set's name does. A name without one is read from its last hyphen.
    """
    if "-" not in wanted:
        return f"{cluster}-{wanted}"
    digest = hashlib.sha256(f"{cluster}/{wanted}".encode()).hexdigest()[:7]
    return f"{cluster}-{wanted}-0{digest}"


def machine_sets(deployment: Json, wish: ClusterDeployment) -> list[Json]:
    """Return the MachineSets, with their defaults as the API server fills them in."""
    name = deployment["metadata"]["name"]
    return [
        {
            **_child(MACHINE_SET, set_name(name, one.name), deployment),
            "spec": one.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for one in wish.spec.machine_sets
    ]


def make_children(api: Cluster, clusters: Informer, sets: Informer, deployment: Json, wish: ClusterDeployment) -> bool:
    """Make or correct what an object owns, and delete the sets that it lost; tell whether anything was to do.

    Raises:
        InfraRetriable: something of a name is another object's still.
    """
    wanted = machine_sets(deployment, wish)
    changed = [_ensure(api, CLUSTER, clusters, deployment, cluster_object(deployment, wish))]
    changed += [_ensure(api, MACHINE_SET, sets, deployment, one) for one in wanted]
    mine, names = key_of(deployment), {one["metadata"]["name"] for one in wanted}
    for one in sets.by(of_uid, deployment["metadata"]["uid"]):
        lost = owner_key(one, CLUSTER_DEPLOYMENT) == mine and one["metadata"]["name"] not in names
        if lost and owned_by(one, deployment) and not deleting(one):
            changed.append(api.delete(MACHINE_SET, one["metadata"]["name"], mine[0]))
    return any(changed)


def _child(kind: Resource, name: str, deployment: Json) -> Json:
    meta = deployment["metadata"]
    labels = {CLUSTER_LABEL: meta["name"], UID_LABEL: meta["uid"], LABEL_MANAGED: MANAGED_BY}
    made = kind.manifest(name, meta["namespace"], labels=labels)
    made["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    return made


def _ensure(api: Cluster, kind: Resource, known: Informer, deployment: Json, body: Json) -> bool:
    namespace, name = key_of(body)
    found = known.get(namespace, name)
    if found is None:
        if api.create_if_absent(kind, body):
            return True
        found = api.get(kind, name, namespace)
    if found is not None and UID_LABEL in labels_of(found) and not owned_by(found, deployment):
        api.delete(kind, name, namespace)
    if found is None or deleting(found) or not owned_by(found, deployment):
        raise InfraRetriable(
            f"{kind.kind} {name} is another object's, or still being deleted",
            hint="what an earlier ClusterDeployment of the name has left is deleted in the background",
        )
    owners = body["metadata"]["ownerReferences"]
    if found.get("spec") == body.get("spec") and (found["metadata"].get("ownerReferences") or []) == owners:
        return False
    found = told(known, found, body, deployment) if kind is MACHINE_SET else found
    meta = {**found["metadata"], "ownerReferences": owners}
    spec = {"spec": body["spec"]} if "spec" in body else {}
    known.observe(api.replace(kind, {**found, "metadata": meta, **spec}))
    return True
