"""Objects that change, refuse or limit others: only those that the product says may exist."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube import Cluster, Resource
from harness.validate.facts.cluster import Json
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.finding import unjudged
from harness.validate.judge.mismatch import Mismatch

ADMISSION = "admissionregistration.k8s.io"
EVERYWHERE = (
    Resource(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    Resource(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
    Resource(
        ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    ),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
)
IN_NAMESPACES = (
    Resource("", "v1", "resourcequotas", "ResourceQuota"),
    Resource("", "v1", "limitranges", "LimitRange"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
)
OWN = ("system-cluster-critical", "system-node-critical")  # of Kubernetes itself


def strange_admission(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return objects that change, refuse or limit others although the product has none such."""
    said, namespaces = expected.leaves.admission, expected.namespaces
    if said is None or namespaces is None:
        why = "product.yml does not say which there may be (admission, namespaces)"
        return [unjudged("objects that change or refuse others", why, whole=True)]
    found = [name for kind in EVERYWHERE for name in _names(kind, api, None)]
    found += [name for kind in IN_NAMESPACES for name in _names(kind, api, namespaces)]
    return [
        Mismatch(name, "not to exist: the product has none such", "it exists") for name in found if name not in said
    ]


def _names(kind: Resource, api: Cluster, namespaces: frozenset[str] | None) -> Iterator[str]:
    for one in api.list(kind).items:
        place = _place(one)
        if one["metadata"]["name"] not in OWN and (namespaces is None or one["metadata"]["namespace"] in namespaces):
            yield f"{kind.kind} {place}"


def _place(one: Json) -> str:
    namespace = one["metadata"].get("namespace")
    return f"{namespace}/{one['metadata']['name']}" if namespace else str(one["metadata"]["name"])
