"""Guards: objects that people must not change as they like, what is filled in, and how a webhook refuses.

No field of the spec is filled in here: definitions have all defaults that there are, and what a ClusterDeployment does
not say, such as a component's version, stays open, for the release table of the next upgrade.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
)
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.clusterdeployment import derived
from harness.operator.controllers.declarations import declared_now, resource_of
from harness.operator.controllers.machine_phase import in_use
from harness.operator.decide.etcdclients import used_by

CONFIRMATIONS = (APPROVE_ANNOTATION, REMOVE_SETS_ANNOTATION)


def refused(mistakes: Sequence[SpecMistake]) -> AdmissionResponse:
    """Refuse an object for what is wrong with it."""
    causes = tuple(StatusCause(f"{mistake.message}: {mistake.remedy}", mistake.field) for mistake in mistakes)
    message = "; ".join(mistake.text for mistake in mistakes)
    return AdmissionResponse(False, code=UNPROCESSABLE, reason="Invalid", message=message, causes=causes)


def forbidden(message: str) -> AdmissionResponse:
    """Refuse what somebody may not do."""
    return AdmissionResponse(False, code=FORBIDDEN, reason="Forbidden", message=message)


def guard_machine(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse the deletion of a Machine that its cluster has something on."""
    machine = request["oldObject"]
    name = dig(machine, "spec", "claim", "cluster")
    owner = cluster.get(CLUSTER, name, machine["metadata"]["namespace"]) if name else None
    mistake = in_use(machine, owner)
    return refused([mistake]) if mistake is not None else ALLOWED


def guard_claim(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse what anybody but the operator writes of the claim of a Machine that its cluster has something on."""
    machine = request["oldObject"]
    owner = cluster.get(CLUSTER, machine["spec"]["claim"]["cluster"], machine["metadata"]["namespace"])
    mistake = in_use(machine, owner)
    return refused([replace(mistake, field="spec.claim")]) if mistake is not None else ALLOWED


def guard_cluster(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse the deletion of a Cluster whose status is all that is known of what was deployed."""
    deleted = request["oldObject"]
    namespace, name = key_of(deleted)
    deployment = declared_now(cluster, (namespace, name))
    if deployment is None or deleting(deployment) or not owned_by(deleted, deployment):
        return ALLOWED
    if not dig(deleted, "status", "applied"):
        return ALLOWED
    what = f"Cluster {name} knows what is deployed on which machines"
    return refused([SpecMistake("metadata.name", what, f"delete {resource_of(deployment).kind} {name} instead")])


def guard_etcd(request: Json, cluster: Cluster) -> AdmissionResponse:
    """Refuse the deletion of an EtcdCluster that ClusterDeployments name, unless all of them are being deleted."""
    namespace, name = key_of(request["oldObject"])
    using = [
        deployment["metadata"]["name"]
        for deployment in cluster.list(CLUSTER_DEPLOYMENT, namespace).items
        if dig(deployment, "spec", "etcd", "clusterRef", "name") == name and not deleting(deployment)
    ]
    if not using:
        return ALLOWED
    what, _, remedy = used_by(name, ", ".join(sorted(using))).partition(": ")
    return refused([SpecMistake("metadata.name", what, remedy)])


def guard_set(request: Json, trusted: Collection[str]) -> AdmissionResponse:
    """Refuse what anybody but the operator writes of a MachineSet; labels and annotations are everybody's."""
    new, old = request.get("object"), request.get("oldObject")
    if request["userInfo"].get("username") in trusted or (new and old and new.get("spec") == old.get("spec")):
        return ALLOWED
    return forbidden(derived(new or old or {}))


def default_delivery(request: Json) -> AdmissionResponse:
    """Write down who changed the spec."""
    return _with_authors(request, {AUTHOR_ANNOTATION: _changes_spec(request)})


def default_deployment(request: Json) -> AdmissionResponse:
    """Write down who changed the spec, and who gave an approval."""
    present, before = _annotations(request["object"]), _annotations(request.get("oldObject"))
    approves = any(present.get(name) and present[name] != before.get(name) for name in CONFIRMATIONS)
    return _with_authors(request, {REQUESTED_BY_ANNOTATION: _changes_spec(request), APPROVED_BY_ANNOTATION: approves})


def _changes_spec(request: Json) -> bool:
    old = request.get("oldObject")
    return old is None or old.get("spec") != request["object"].get("spec")


def _annotations(obj: Json | None) -> dict[str, str]:
    return dict(dig(obj, "metadata", "annotations") or {})


def _with_authors(request: Json, written: Mapping[str, bool]) -> AdmissionResponse:
    """Have annotations name the user of a request, or whom they named before; nobody writes another's name there.

    Args:
        written: whether the request does what each of them is about.
    """
    new, before = request["object"], _annotations(request.get("oldObject"))
    if deleting(new):
        return ALLOWED
    user = request["userInfo"].get("username", "")
    names = {name: user if now else before.get(name) for name, now in written.items()}
    kept = {name: value for name, value in _annotations(new).items() if name not in names}
    annotations = {**kept, **{name: value for name, value in names.items() if value}}
    rest = {name: value for name, value in new["metadata"].items() if name != "annotations"}
    return change(request, {"metadata": {**rest, **({"annotations": annotations} if annotations else {})}})
