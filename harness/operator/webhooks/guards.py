"""Objects that people must not change as they like: Machines in use, and what is derived: MachineSets and Clusters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from harness.kube.admission import ALLOWED, AdmissionResponse
from harness.kube.client import Cluster, Json
from harness.kube.informer import key_of
from harness.kube.kinds.form import SpecMistake
from harness.kube.objects import deleting, dig
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.machine_in_use import in_use
from harness.operator.controllers.machine_set_edits import derived
from harness.operator.webhooks.answers import forbidden, refused


def guard_machine(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse the deletion of a Machine that its cluster has something on."""
    machine = request["oldObject"]
    name = dig(machine, "spec", "claim", "cluster")
    found = cluster.get(CLUSTER, name, machine["metadata"]["namespace"]) if name else None
    mistake = in_use(machine, found)
    return refused([mistake]) if mistake is not None else ALLOWED


def guard_claim(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse what anybody but the operator writes of the claim of a Machine that its cluster has something on."""
    machine = request["oldObject"]
    found = cluster.get(CLUSTER, machine["spec"]["claim"]["cluster"], machine["metadata"]["namespace"])
    mistake = in_use(machine, found)
    return refused([replace(mistake, field="spec.claim")]) if mistake is not None else ALLOWED


def guard_cluster(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse the deletion of a Cluster whose status is all that is known of what was deployed."""
    found = request["oldObject"]
    namespace, name = key_of(found)
    deployment = cluster.get(CLUSTER_DEPLOYMENT, name, namespace)
    if deployment is None or deleting(deployment) or not owned_by(found, deployment):
        return ALLOWED
    if not dig(found, "status", "applied"):
        return ALLOWED
    what = f"Cluster {name} knows what is deployed on which machines"
    return refused([SpecMistake("metadata.name", what, f"delete ClusterDeployment {name} instead")])


def guard_set(request: Json, trusted: Collection[str]) -> AdmissionResponse:
    """Refuse what anybody but the operator writes of a MachineSet; labels and annotations are everybody's."""
    new, old = request.get("object"), request.get("oldObject")
    if request["userInfo"].get("username") in trusted or (new and old and new.get("spec") == old.get("spec")):
        return ALLOWED
    return forbidden(derived(new or old or {}))
