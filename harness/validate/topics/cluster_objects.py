"""Cluster objects: what cannot be read or deleted, changes or refuses others unasked, or lasts longer than it may."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, TypeVar

from harness.kube import Cluster, Resource
from harness.kube.failures import Unreachable
from harness.kube.resources import (
    API_SERVICE,
    CRD,
    CSR,
    ENDPOINT_SLICE,
    MUTATING_WEBHOOK,
    NAMESPACE,
    PV,
    SECRET,
    SERVICE,
    SERVICE_CIDR,
    VALIDATING_WEBHOOK,
)
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import OF_CHECKS, Json
from harness.validate.findings import Mismatch, unjudged
from harness.validate.manifests import installed, listed
from harness.validate.probes import words_of

ADMISSION, FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
EVERYWHERE = (
    MUTATING_WEBHOOK,
    VALIDATING_WEBHOOK,
    Resource(
        ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    ),
    # served since Kubernetes 1.36
    Resource(ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", namespaced=False),
    Resource(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
    Resource(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    Resource(FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False),
    Resource(FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False),
    Resource("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    SERVICE_CIDR,
)
IN_NAMESPACES = (
    Resource("", "v1", "resourcequotas", "ResourceQuota"),
    Resource("", "v1", "limitranges", "LimitRange"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
)
OWN = frozenset(  # of Kubernetes itself
    (
        "PriorityClass system-cluster-critical",
        "PriorityClass system-node-critical",
        "ServiceCIDR kubernetes",
    )
)
# The API server keeps objects with this annotation as they are, and writes "false" where somebody has changed them
# (kubernetes.io, "API Priority and Fairness").
KEPT = "apf.kubernetes.io/autoupdate-spec"
# What pods of the system need (kubernetes.io, "Pod Security Admission").
ENFORCED, NEEDED = "pod-security.kubernetes.io/enforce", "privileged"


def strange_admission(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return objects that change, refuse or limit others although the product has none such, or not like this."""
    admission, namespaces = expected.leaves.admission, expected.namespaces
    if admission is None or namespaces is None:
        why = "product.yml does not say which there may be (admission, namespaces)"
        return [unjudged("objects that change or refuse others", why, whole=True)]
    mismatches = [mismatch for kind in EVERYWHERE for mismatch in _strange(kind, api, admission, None)]
    mismatches += [mismatch for kind in IN_NAMESPACES for mismatch in _strange(kind, api, admission, namespaces)]
    return [*mismatches, *_foreign_services(api, expected), *_restricted(api, namespaces)]


def resources_of(findings: Iterable[Mismatch]) -> str:
    """Return what to ask kubectl for to see the objects that findings name: their kinds, with a comma between them."""
    plurals = {resource.kind: resource.plural for resource in (*EVERYWHERE, *IN_NAMESPACES, NAMESPACE, API_SERVICE)}
    named = (plurals.get(finding.where.partition(" ")[0]) for finding in findings)
    return ",".join(dict.fromkeys(filter(None, named))) or NAMESPACE.plural


def _strange(
    kind: Resource, api: Cluster, admission: Sequence[str], namespaces: frozenset[str] | None
) -> Iterator[Mismatch]:
    """Yield objects of a kind that are nobody's, and those of the API server that somebody has changed."""
    for obj in listed(api, kind):
        name, meta = f"{kind.kind} {_place(obj)}", obj["metadata"]
        kept = (meta.get("annotations") or {}).get(KEPT)
        if name in OWN or name in admission or (namespaces is not None and meta["namespace"] not in namespaces):
            continue
        if kept is None:
            yield Mismatch(name, "not to exist: the product has none such", "it exists")
        elif kept != "true":
            yield Mismatch(name, "as the API server makes it", f"changed by somebody: annotation {KEPT}={kept}")


def _foreign_services(api: Cluster, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Yield APIServices that hand over a part of the API to somebody whom the product does not name."""
    known = installed(expected)
    if known is None:
        yield unjudged("APIServices of others", "product.yml does not say which the product installs (manifests)")
        return
    for api_service in api.list(API_SERVICE).items:
        service, name = api_service["spec"].get("service"), api_service["metadata"]["name"]
        if service and (API_SERVICE.kind, "", name) not in known:
            wanted = "an API of the API server itself: the product installs no other"
            yield Mismatch(f"APIService {name}", wanted, f"Service {service['namespace']}/{service['name']}")


def _restricted(api: Cluster, namespaces: frozenset[str]) -> Iterator[Mismatch]:
    """Yield the cluster's own namespaces that would refuse its own pods when they start anew."""
    for namespace in api.list(NAMESPACE).items:
        enforced = (namespace["metadata"].get("labels") or {}).get(ENFORCED, NEEDED)
        if namespace["metadata"]["name"] in namespaces and enforced != NEEDED:
            yield Mismatch(
                f"Namespace {namespace['metadata']['name']}", f"label {ENFORCED} {NEEDED}, or none", enforced
            )


def _place(obj: Json) -> str:
    namespace = obj["metadata"].get("namespace")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else str(obj["metadata"]["name"])


TOKEN_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - the name of a kind of Secret
ACCOUNT_TYPE = "kubernetes.io/service-account-token"
# kubeadm's default (kubeadm token create, --ttl), and for clocks that differ
TOKEN_LIFE, CLOCKS = timedelta(hours=24), timedelta(minutes=10)


def unfinished(api: Cluster) -> list[Mismatch]:
    """Return requests and deletions that do not come to an end, and what does not become available."""
    services = api.list(API_SERVICE).items
    mismatches = [_service(service) for service in services if _condition(service, "Available").get("status") != "True"]
    mismatches += [
        _request(request) for request in api.list(CSR).items if not request.get("status", {}).get("conditions")
    ]
    deleted = [namespace for namespace in api.list(NAMESPACE).items if "deletionTimestamp" in namespace["metadata"]]
    mismatches += [
        _namespace(namespace) for namespace in deleted if OF_CHECKS.match(namespace["metadata"]["name"]) is None
    ]
    failed = [volume for volume in api.list(PV).items if volume.get("status", {}).get("phase") == "Failed"]
    mismatches += [
        Mismatch(f"{PV.kind} {volume['metadata']['name']}", "released or bound", "Failed") for volume in failed
    ]
    return mismatches if services else [*mismatches, Mismatch("the API", "APIServices", "none")]


METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
PARALLEL = 8  # requests at a time
READ_SECONDS = 8.0  # for one list: a webhook that does not answer keeps the API server for longer
MANY = frozenset((("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")))
# What deletes what, with these finalizers, is a part of every cluster (pkg/controller of Kubernetes).
FINALIZERS = frozenset(
    (
        *("kubernetes", "foregroundDeletion", "orphan", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection"),
        *(
            "kubernetes.io/vac-protection",
            "networking.k8s.io/service-cidr-finalizer",
            "batch.kubernetes.io/job-tracking",
        ),
        *("resource.kubernetes.io/delete-protection", "customresourcecleanup.apiextensions.k8s.io"),
    )
)
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class ServedObjects:
    """What the API serves: the metadata of objects by KIND, and what it does not give, with the reason."""

    metadata: Mapping[str, Sequence[Json]]
    trouble: tuple[Mismatch, ...]


def served_objects(api: Cluster) -> ServedObjects:
    """Ask for every resource, in each version that is served; objects are those of the version that a group prefers."""
    paths, trouble = _group_versions(api)
    kinds: list[tuple[Resource, bool]] = []
    for (path, preferred), answer in zip(paths.items(), _at_once(lambda at: _get(api, at), paths), strict=True):
        if isinstance(answer, str):
            trouble.append(Mismatch(f"GET {path}", "what the API serves there", answer))
        else:
            kinds += [(kind, preferred) for kind in _listable(path, answer)]
    metadata: dict[str, Sequence[Json]] = {}
    for (kind, whole), answer in zip(kinds, _at_once(lambda kind: _list_of(api, *kind), kinds), strict=True):
        if isinstance(answer, str):
            trouble.append(Mismatch(f"GET {kind.path()} ({kind.kind})", "a list of its objects", answer))
        elif whole:
            metadata[kind.kind] = answer.get("items") or ()
    return ServedObjects(metadata, tuple(trouble))


def _at_once(ask: Callable[[A], B], what: Iterable[A]) -> list[B]:
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(ask, what))


def _group_versions(api: Cluster) -> tuple[dict[str, bool], list[Mismatch]]:
    """Return the path of every version of every group, and whether the group prefers it."""
    groups = _get(api, "/apis")
    if isinstance(groups, str):
        return {"/api/v1": True}, [Mismatch("GET /apis", "the groups of the API", groups)]
    versions = ((group, version["groupVersion"]) for group in groups["groups"] for version in group["versions"])
    return {
        "/api/v1": True,
        **{f"/apis/{version}": version == group["preferredVersion"]["groupVersion"] for group, version in versions},
    }, []


def _get(api: Cluster, path: str, accept: str = "application/json", **query: str) -> Json | str:
    """Return an answer, or why there is none."""
    try:
        answer = api.send("GET", path, query=query, accept=accept, read_seconds=READ_SECONDS)
    except Unreachable as silent:
        return f"no answer: {silent.summary}"
    if answer.code != HTTPStatus.OK or not isinstance(answer.body, dict):
        return f"{answer.code}: {words_of(answer.body)}"
    return answer.body


def _listable(path: str, answer: Json) -> Iterator[Resource]:
    group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
    for resource in answer["resources"]:
        if "list" in resource["verbs"] and "/" not in resource["name"]:
            yield Resource(group, version, resource["name"], resource["kind"], namespaced=resource["namespaced"])


def _list_of(api: Cluster, kind: Resource, whole: bool) -> Json | str:
    few = not whole or (kind.group, kind.plural) in MANY
    return _get(api, kind.path(), METADATA, **({"limit": "1"} if few else {}))


def unreadable(api: Cluster, served: ServedObjects) -> list[Mismatch]:
    """Return what the API serves and does not give, and what will keep it from it: dead converters, old versions."""
    if not served.metadata:
        return [Mismatch("the API", "lists of objects", "none"), *served.trouble]
    return [*served.trouble, *(mismatch for crd in listed(api, CRD) for mismatch in _definition(crd, api))]


def _definition(crd: Json, api: Cluster) -> Iterator[Mismatch]:
    where, spec, status = f"{CRD.kind} {crd['metadata']['name']}", crd["spec"], crd.get("status") or {}
    for kind in ("Established", "NamesAccepted"):
        condition = _condition(crd, kind)
        if condition.get("status") != "True":
            yield Mismatch(where, kind, f"{condition.get('reason')}: {condition.get('message')}")
    if (wrong := _condition(crd, "NonStructuralSchema")).get("status") == "True":
        yield Mismatch(where, "a schema that the API server takes", str(wrong.get("message")))
    unserved = sorted(set(status.get("storedVersions") or ()) - {version["name"] for version in spec["versions"]})
    if unserved:
        yield Mismatch(where, "that every stored version can be read", f"no version {', '.join(unserved)}")
    client = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    if why := _dead(api, client):
        yield Mismatch(f"{where} conversion webhook", "an endpoint that answers", why)


def _dead(api: Cluster, client: Mapping[str, Any]) -> str:
    """Say why nobody answers for the API server's call; "" where somebody may."""
    service = client.get("service")
    if not service:
        return ""
    place = f"Service {service['namespace']}/{service['name']}"
    if api.get(SERVICE, service["name"], service["namespace"]) is None:
        return f"{place} does not exist"
    pieces = api.list(
        ENDPOINT_SLICE, service["namespace"], labels=f"kubernetes.io/service-name={service['name']}"
    ).items
    ends = [endpoint for piece in pieces for endpoint in piece.get("endpoints") or ()]
    ready = [endpoint for endpoint in ends if (endpoint.get("conditions") or {}).get("ready") is not False]
    return "" if ready else f"{place} has no ready endpoint"


def closed_webhooks(api: Cluster) -> list[Mismatch]:
    """Return webhooks that refuse because nobody answers, or that may refuse any pod of the system."""
    mismatches: list[Mismatch] = []
    hooks = [
        (kind, configuration, hook)
        for kind in WEBHOOKS
        for configuration in listed(api, kind)
        for hook in configuration.get("webhooks") or ()
    ]
    for kind, configuration, hook in hooks:
        where = f"{kind.kind} {configuration['metadata']['name']} ({hook['name']})"
        if hook.get("failurePolicy", "Fail") != "Fail":
            continue
        if why := _dead(api, hook.get("clientConfig") or {}):
            mismatches.append(Mismatch(where, "an endpoint that answers: what it is for is refused without", why))
        elif _catches_all(hook):
            requirement = "that pods of kube-system start without it (namespaceSelector, failurePolicy Ignore)"
            mismatches.append(Mismatch(where, requirement, "every pod depends on it"))
    return mismatches


WEBHOOKS = (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)


def _catches_all(hook: Mapping[str, Any]) -> bool:
    """Tell whether a webhook is asked about every new pod, whatever its namespace and labels."""
    if hook.get("namespaceSelector") or hook.get("objectSelector") or hook.get("matchConditions"):
        return False
    return any(
        {"*", ""} & set(rule.get("apiGroups") or ())
        and {"*", "*/*", "pods"} & set(rule.get("resources") or ())
        and {"*", "CREATE"} & set(rule.get("operations") or ())
        and rule.get("scope", "*") != "Cluster"
        for rule in hook.get("rules") or ()
    )


def undeletable(served: ServedObjects, expected: ExpectedGuest, now: datetime | None = None) -> list[Mismatch]:
    """Return objects that are being deleted, and those that could not be: nobody takes away their finalizers."""
    moment, mismatches = now or datetime.now(UTC), list[Mismatch]()
    all_said = expected.leaves.admission is not None and expected.namespaces is not None
    for kind, objects in sorted(served.metadata.items()):
        for obj in objects if kind != NAMESPACE.kind else ():
            meta = obj["metadata"]
            if OF_CHECKS.match(meta.get("namespace") or meta["name"]):
                continue
            held, where = meta.get("finalizers") or [], f"{kind} {_place(obj)}"
            ends = meta.get("deletionTimestamp")
            strange = sorted(set(held) - FINALIZERS)
            if ends is not None and datetime.fromisoformat(ends) < moment:
                waits = f"it waits for {', '.join(held) or 'something else'} since {ends}"
                mismatches.append(Mismatch(where, "no deletion under way", waits))
            elif strange and all_said and meta.get("namespace", "kube-system") in (expected.namespaces or ()):
                requirement = "finalizers that a controller of the cluster takes away"
                mismatches.append(Mismatch(where, requirement, f"{', '.join(strange)}: it could never be deleted"))
    if not all_said:
        why = "product.yml does not say what there may be (admission, namespaces)"
        mismatches.append(unjudged("finalizers that nobody takes away", why))
    return mismatches if served.metadata else [Mismatch("the API", "lists of objects", "none")]


def lasting_tokens(
    api: Cluster, now: datetime | None = None, *, namespaces: frozenset[str] | None = None
) -> list[Mismatch]:
    """Return bootstrap tokens, which let any machine join, that do not expire within a day, and accounts' lasting ones.

    Args:
        namespaces: those of the cluster's own pods, whose accounts have no token without an end; None: not known.
    """
    latest = (now or datetime.now(UTC)) + TOKEN_LIFE + CLOCKS
    secrets = [
        secret for secret in api.list(SECRET, fields=f"type={TOKEN_TYPE}").items if secret.get("type") == TOKEN_TYPE
    ]
    mismatches: list[Mismatch] = []
    for secret in secrets:
        where = f"Secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"
        ends = base64.b64decode((secret.get("data") or {}).get("expiration", "")).decode()
        if not ends or datetime.fromisoformat(ends) > latest:
            mismatches.append(Mismatch(where, "a bootstrap token that expires within a day", ends or "no expiration"))
    if namespaces is None:
        why = "product.yml does not say which namespaces are the cluster's own (namespaces)"
        return [*mismatches, unjudged("lasting tokens of accounts", why)]
    for secret in api.list(SECRET, fields=f"type={ACCOUNT_TYPE}").items:
        meta = secret["metadata"]
        if secret.get("type") == ACCOUNT_TYPE and meta["namespace"] in namespaces:
            where = f"Secret {meta['namespace']}/{meta['name']}"
            mismatches.append(Mismatch(where, "no token of a ServiceAccount that lasts for ever", "it exists"))
    return mismatches


def _condition(obj: Json, kind: str) -> Json:
    return next(
        (condition for condition in obj.get("status", {}).get("conditions") or () if condition["type"] == kind), {}
    )


def _service(obj: Json) -> Mismatch:
    condition = _condition(obj, "Available")
    return Mismatch(
        f"APIService {obj['metadata']['name']}", "Available", f"{condition.get('reason')}: {condition.get('message')}"
    )


def _request(obj: Json) -> Mismatch:
    spec = obj["spec"]
    pending = f"pending, of {spec.get('username')} for {spec.get('signerName')}"
    return Mismatch(f"CertificateSigningRequest {obj['metadata']['name']}", "approved or denied", pending)


def _namespace(obj: Json) -> Mismatch:
    words = [
        f"{c['reason']}: {c['message']}" for c in obj.get("status", {}).get("conditions") or () if c["status"] == "True"
    ]
    return Mismatch(f"Namespace {obj['metadata']['name']}", "no deletion under way", "; ".join(words) or "Terminating")
