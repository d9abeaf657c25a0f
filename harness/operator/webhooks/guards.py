"""Guards: objects that people must not change as they like, what is filled in, and how a webhook refuses.

No field of the spec is filled in here: definitions have all defaults that there are, and what a ClusterDeployment does
not say, such as a component's version, stays open, for the release table of the next upgrade.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from harness.kube.admission import ALLOWED, FORBIDDEN, UNPROCESSABLE, AdmissionResponse, StatusCause, change
from harness.kube.client import Cluster, Json
from harness.kube.informer import key_of
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import deleting, dig
from harness.operator.api.resources import (
    APPROVE_ANNOTATION,
    APPROVED_BY_ANNOTATION,
    AUTHOR_ANNOTATION,
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    REMOVE_SETS_ANNOTATION,
    REQUESTED_BY_ANNOTATION,
    RESTORE_ANNOTATION,
)
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.clusterdeployment import derived
from harness.operator.controllers.machine_phase import in_use

CONFIRMATIONS = (APPROVE_ANNOTATION, RESTORE_ANNOTATION, REMOVE_SETS_ANNOTATION)


def refused(mistakes: Sequence[SpecMistake]) -> AdmissionResponse:
    """Refuse an object for what is wrong with it."""
    causes = tuple(StatusCause(f"{one.message}: {one.remedy}", one.field) for one in mistakes)
    message = "; ".join(one.text for one in mistakes)
    return AdmissionResponse(False, code=UNPROCESSABLE, reason="Invalid", message=message, causes=causes)


def forbidden(message: str) -> AdmissionResponse:
    """Refuse what somebody may not do."""
    return AdmissionResponse(False, code=FORBIDDEN, reason="Forbidden", message=message)


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


def default_delivery(request: Json) -> AdmissionResponse:
    """Write down who changed the spec; nobody can write another's name there."""
    new, old, user = request["object"], request.get("oldObject"), request["userInfo"].get("username", "")
    if deleting(new):
        return ALLOWED
    told = user if old is None or old.get("spec") != new.get("spec") else _annotated(old).get(AUTHOR_ANNOTATION)
    said = {name: value for name, value in _annotated(new).items() if name != AUTHOR_ANNOTATION}
    annotations = {**said, **({AUTHOR_ANNOTATION: told} if told else {})}
    return change(request, {"metadata": {**new["metadata"], **({"annotations": annotations} if annotations else {})}})


def _annotated(obj: Json) -> dict[str, str]:
    return dict(dig(obj, "metadata", "annotations") or {})


def default_deployment(request: Json) -> AdmissionResponse:
    """Write down who changed the spec, and who gave an approval; nobody can write another's name there."""
    new, old, user = request["object"], request.get("oldObject"), request["userInfo"].get("username", "")
    if deleting(new):
        return ALLOWED
    said = dict(new["metadata"].get("annotations") or {})
    before = dig(old, "metadata", "annotations") or {}
    spoke = {REQUESTED_BY_ANNOTATION: old is None or old.get("spec") != new.get("spec")}
    given = [name for name in CONFIRMATIONS if said.get(name)]
    spoke[APPROVED_BY_ANNOTATION] = any(said[name] != before.get(name) for name in given)
    for annotation, now in spoke.items():
        told = user if now else before.get(annotation)
        said = {name: value for name, value in said.items() if name != annotation}
        said |= {annotation: told} if told else {}
    return change(request, {"metadata": {**new["metadata"], "annotations": said}})
