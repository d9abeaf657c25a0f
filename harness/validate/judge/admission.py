"""Objects that change, refuse or limit others: only those that the product says may exist."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube import Cluster, Resource
from harness.kube.failures import ApiFailure
from harness.kube.resources import NAMESPACE
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import Json
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
