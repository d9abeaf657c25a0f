"""Objects that people must not change as they like: Machines in use, and MachineSets, which are derived."""

from __future__ import annotations

from collections.abc import Collection

from harness.kube.admission import ALLOWED, AdmissionResponse
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.operator.api.resources import CLUSTER
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


def guard_set(request: Json, trusted: Collection[str]) -> AdmissionResponse:
    """Refuse what anybody but the operator writes of a MachineSet; labels and annotations are everybody's."""
    new, old = request.get("object"), request.get("oldObject")
    if request["userInfo"].get("username") in trusted or (new and old and new.get("spec") == old.get("spec")):
        return ALLOWED
    return forbidden(derived(new or old or {}))
