"""Cluster objects: webhooks, quotas and policies that nobody asked for; endless requests; tokens that never expire."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from harness.kube import Cluster, Resource
from harness.kube.failures import ApiFailure
from harness.kube.resources import API_SERVICE, CRD, CSR, NAMESPACE, PV, SECRET
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import OF_CHECKS, Json
from harness.validate.findings import Mismatch, unjudged

ADMISSION, FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
EVERYWHERE = (
    Resource(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    Resource(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
    Resource(
        ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    ),
    # served since Kubernetes 1.36
    Resource(ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", namespaced=False),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    Resource(FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False),
    Resource(FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False),
)
IN_NAMESPACES = (
    Resource("", "v1", "resourcequotas", "ResourceQuota"),
    Resource("", "v1", "limitranges", "LimitRange"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
)
OWN = ("system-cluster-critical", "system-node-critical")  # of Kubernetes itself
# The API server keeps objects with this annotation as they are (kubernetes.io, "API Priority and Fairness").
KEPT = "apf.kubernetes.io/autoupdate-spec"
# What pods of the system need (kubernetes.io, "Pod Security Admission").
ENFORCED, NEEDED = "pod-security.kubernetes.io/enforce", "privileged"


def strange_admission(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return objects that change, refuse or limit others although the product has none such."""
    said, namespaces = expected.leaves.admission, expected.namespaces
    if said is None or namespaces is None:
        why = "product.yml does not say which there may be (admission, namespaces)"
        return [unjudged("objects that change or refuse others", why, whole=True)]
    found = [name for kind in EVERYWHERE for name in _names(kind, api, None)]
    found += [name for kind in IN_NAMESPACES for name in _names(kind, api, namespaces)]
    strange = [
        Mismatch(name, "not to exist: the product has none such", "it exists") for name in found if name not in said
    ]
    return [*strange, *_restricted(api, namespaces)]


def _names(kind: Resource, api: Cluster, namespaces: frozenset[str] | None) -> Iterator[str]:
    for one in _listed(kind, api):
        place, meta = _place(one), one["metadata"]
        own = meta["name"] in OWN or (meta.get("annotations") or {}).get(KEPT) == "true"
        if not own and (namespaces is None or meta["namespace"] in namespaces):
            yield f"{kind.kind} {place}"


def _listed(kind: Resource, api: Cluster) -> list[Json]:
    """Return the objects of a kind, none where the cluster does not have it."""
    try:
        return api.list(kind).items
    except ApiFailure as failure:
        if failure.not_found:
            return []
        raise


def _restricted(api: Cluster, namespaces: frozenset[str]) -> Iterator[Mismatch]:
    """Yield the cluster's own namespaces that would refuse its own pods when they start anew."""
    for one in api.list(NAMESPACE).items:
        enforced = (one["metadata"].get("labels") or {}).get(ENFORCED, NEEDED)
        if one["metadata"]["name"] in namespaces and enforced != NEEDED:
            yield Mismatch(f"Namespace {one['metadata']['name']}", f"label {ENFORCED} {NEEDED}, or none", enforced)


def _place(one: Json) -> str:
    namespace = one["metadata"].get("namespace")
    return f"{namespace}/{one['metadata']['name']}" if namespace else str(one["metadata"]["name"])


TOKEN_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - the name of a kind of Secret
ACCOUNT_TYPE = "kubernetes.io/service-account-token"
# kubeadm's default (kubeadm token create, --ttl), and for clocks that differ
TOKEN_LIFE, CLOCKS = timedelta(hours=24), timedelta(minutes=10)


def unfinished(api: Cluster) -> list[Mismatch]:
    """Return requests and deletions that do not come to an end, and what does not become available."""
    services = api.list(API_SERVICE).items
    found = [_service(one) for one in services if _condition(one, "Available").get("status") != "True"]
    found += [_request(one) for one in api.list(CSR).items if not one.get("status", {}).get("conditions")]
    deleted = [one for one in api.list(NAMESPACE).items if "deletionTimestamp" in one["metadata"]]
    found += [_namespace(one) for one in deleted if OF_CHECKS.match(one["metadata"]["name"]) is None]
    for kind in (CRD, PV):
        items = api.list(kind).items
        ending = [one for one in items if "deletionTimestamp" in one["metadata"]]
        found += [
            Mismatch(f"{kind.kind} {one['metadata']['name']}", "no deletion under way", _held(one)) for one in ending
        ]
        failed = [one for one in items if one.get("status", {}).get("phase") == "Failed"]
        found += [Mismatch(f"{kind.kind} {one['metadata']['name']}", "released or bound", "Failed") for one in failed]
    return found if services else [*found, Mismatch("the API", "APIServices", "none")]


def _held(obj: Json) -> str:
    return f"it waits for {', '.join(obj['metadata'].get('finalizers') or ()) or 'something else'}"


def lasting_tokens(
    api: Cluster, now: datetime | None = None, *, namespaces: frozenset[str] | None = None
) -> list[Mismatch]:
    """Return bootstrap tokens, which let any machine join, that do not expire within a day, and accounts' lasting ones.

    Args:
        namespaces: those of the cluster's own pods, whose accounts have no token without an end; None: not known.
    """
    latest = (now or datetime.now(UTC)) + TOKEN_LIFE + CLOCKS
    secrets = [one for one in api.list(SECRET, fields=f"type={TOKEN_TYPE}").items if one.get("type") == TOKEN_TYPE]
    found: list[Mismatch] = []
    for secret in secrets:
        where = f"Secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"
        ends = base64.b64decode((secret.get("data") or {}).get("expiration", "")).decode()
        if not ends or datetime.fromisoformat(ends) > latest:
            found.append(Mismatch(where, "a bootstrap token that expires within a day", ends or "no expiration"))
    for secret in api.list(SECRET, fields=f"type={ACCOUNT_TYPE}").items if namespaces is not None else ():
        meta = secret["metadata"]
        if secret.get("type") == ACCOUNT_TYPE and meta["namespace"] in (namespaces or ()):
            where = f"Secret {meta['namespace']}/{meta['name']}"
            found.append(Mismatch(where, "no token of a ServiceAccount that lasts for ever", "it exists"))
    return found


def _condition(obj: Json, kind: str) -> Json:
    return next((one for one in obj.get("status", {}).get("conditions") or () if one["type"] == kind), {})


def _service(obj: Json) -> Mismatch:
    seen = _condition(obj, "Available")
    return Mismatch(
        f"APIService {obj['metadata']['name']}", "Available", f"{seen.get('reason')}: {seen.get('message')}"
    )


def _request(obj: Json) -> Mismatch:
    spec = obj["spec"]
    seen = f"pending, of {spec.get('username')} for {spec.get('signerName')}"
    return Mismatch(f"CertificateSigningRequest {obj['metadata']['name']}", "approved or denied", seen)


def _namespace(obj: Json) -> Mismatch:
    words = [
        f"{c['reason']}: {c['message']}" for c in obj.get("status", {}).get("conditions") or () if c["status"] == "True"
    ]
    return Mismatch(f"Namespace {obj['metadata']['name']}", "no deletion under way", "; ".join(words) or "Terminating")
