"""Objects that change, refuse or limit others, and what waits for ever in a guest's API, are found."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.kube.client import Answer, ApiFailure, Listing
from harness.kube.failures import Unreachable
from harness.kube.resources import Resource
from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.topics.cluster_objects import (
    EVERYWHERE,
    FINALIZERS,
    IN_NAMESPACES,
    ServedObjects,
    closed_webhooks,
    lasting_tokens,
    resources_of,
    served_objects,
    strange_admission,
    undeletable,
    unfinished,
    unreadable,
)
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Json
from tests.unit.validate.kept import KeptApi, Objects, named

OWN = [{"metadata": {"name": "system-node-critical"}}]


def test_a_fresh_cluster_has_none() -> None:
    kept = [{"metadata": {"name": "system-nodes", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}}]
    api = KeptApi(lambda api: api.update(priorityclasses=OWN, flowschemas=kept))
    assert strange_admission(api, guests.expected()) == []


def test_a_kind_that_an_older_cluster_does_not_serve_is_no_finding() -> None:
    class Older(KeptApi):
        def list(self, resource: Resource, namespace: str | None = None, **given: str) -> Listing:
            if resource.plural == "mutatingadmissionpolicybindings":
                raise ApiFailure(404, "NotFound", "no such kind", [], request="GET /")
            return super().list(resource, namespace, **given)

    assert strange_admission(Older(), guests.expected()) == []


def test_a_namespace_that_would_refuse_the_clusters_own_pods_is_found() -> None:
    def restrict(objects: Objects) -> None:
        for name, enforced in (("kube-system", "restricted"), ("kube-flannel", "privileged"), ("default", "baseline")):
            named(objects["namespaces"], name)["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": enforced}

    (found,) = strange_admission(KeptApi(restrict), guests.expected())
    assert (found.where, found.seen) == ("Namespace kube-system", "restricted")


@pytest.mark.parametrize(
    ("plural", "namespace", "words"),
    [
        ("mutatingwebhookconfigurations", "", "MutatingWebhookConfiguration strange"),
        ("priorityclasses", "", "PriorityClass strange"),
        ("resourcequotas", "kube-system", "ResourceQuota kube-system/strange"),
        ("flowschemas", "", "FlowSchema strange"),
        ("prioritylevelconfigurations", "", "PriorityLevelConfiguration strange"),
        ("validatingwebhookconfigurations", "", "ValidatingWebhookConfiguration strange"),
        ("validatingadmissionpolicies", "", "ValidatingAdmissionPolicy strange"),
        ("validatingadmissionpolicybindings", "", "ValidatingAdmissionPolicyBinding strange"),
        ("mutatingadmissionpolicies", "", "MutatingAdmissionPolicy strange"),
        ("mutatingadmissionpolicybindings", "", "MutatingAdmissionPolicyBinding strange"),
        ("runtimeclasses", "", "RuntimeClass strange"),
        ("servicecidrs", "", "ServiceCIDR strange"),
        ("devicetaintrules", "", "DeviceTaintRule strange"),
        ("limitranges", "kube-system", "LimitRange kube-system/strange"),
        ("poddisruptionbudgets", "kube-system", "PodDisruptionBudget kube-system/strange"),
        ("horizontalpodautoscalers", "kube-system", "HorizontalPodAutoscaler kube-system/strange"),
        ("networkpolicies", "kube-flannel", "NetworkPolicy kube-flannel/strange"),
    ],
)
def test_a_strange_object_is_found(plural: str, namespace: str, words: str) -> None:
    one = {"metadata": {"name": "strange", **({"namespace": namespace} if namespace else {})}}
    (found,) = strange_admission(KeptApi(lambda api: api.update({plural: [one]})), guests.expected())
    assert str(found).startswith(words)


def test_namespaces_of_others_are_theirs() -> None:
    one = {"metadata": {"name": "strange", "namespace": "team"}}
    assert strange_admission(KeptApi(lambda api: api.update(resourcequotas=[one])), guests.expected()) == []


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = strange_admission(KeptApi(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


OURS = guests.expected().namespaces
RECORDED_AT = datetime(2026, 11, 23, 5, 40, tzinfo=UTC)


def unavailable(objects: Objects) -> None:
    named(objects["apiservices"], "v1.apps")["status"]["conditions"][0].update(status="False", message="no endpoints")


def without_condition(objects: Objects) -> None:
    named(objects["apiservices"], "v1.apps")["status"] = {}


def deleted(name: str) -> Callable[[Objects], None]:
    meta = {"name": name, "deletionTimestamp": "2026-11-23T05:00:00Z"}
    return lambda objects: objects["namespaces"].append({"metadata": meta, "status": {"phase": "Terminating"}})


def failed(objects: Objects) -> None:
    objects["persistentvolumes"] = [{"metadata": {"name": "lost"}, "status": {"phase": "Failed"}}]


def pending(objects: Objects) -> None:
    objects["certificatesigningrequests"][0]["status"] = {}


def test_a_well_cluster_passes() -> None:
    assert unfinished(KeptApi()) == []
    assert lasting_tokens(KeptApi(), RECORDED_AT, namespaces=OURS) == []


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        (unavailable, "APIService v1.apps", "no endpoints"),
        (without_condition, "APIService v1.apps", "None"),
        (deleted("stuck"), "Namespace stuck", "Terminating"),
        (failed, "PersistentVolume lost", "Failed"),
        (pending, "CertificateSigningRequest", "pending, of system:"),
    ],
)
def test_what_waits_for_ever_is_found(change: Callable[[Objects], None], where: str, words: str) -> None:
    (found,) = unfinished(KeptApi(change))
    assert found.where.startswith(where)
    assert words in found.seen


@pytest.mark.parametrize("name", ["vmatrix-probe", "deployment-1234"])
def test_namespaces_of_checks_may_be_on_their_way_out(name: str) -> None:
    assert unfinished(KeptApi(deleted(name))) == []


def test_an_api_that_shows_no_service_proves_nothing() -> None:
    assert unfinished(KeptApi(lambda objects: objects["apiservices"].clear()))


@pytest.mark.parametrize(
    ("expiration", "seen"), [("", "no expiration"), ("2036-11-23T05:40:00Z", "2036-11-23T05:40:00Z")]
)
def test_a_token_that_lasts_is_found(expiration: str, seen: str) -> None:
    def change(objects: Objects) -> None:
        objects["secrets"][0]["data"] = {"expiration": base64.b64encode(expiration.encode()).decode()}

    (found,) = lasting_tokens(KeptApi(change), RECORDED_AT, namespaces=OURS)
    assert found.where.startswith("Secret kube-system/bootstrap-token-")
    assert found.seen == seen


@pytest.mark.parametrize(("namespace", "wrong"), [("kube-system", True), ("team", False)])
def test_accounts_of_the_cluster_have_no_tokens_for_ever(namespace: str, wrong: bool) -> None:
    secret = {"metadata": {"name": "forever", "namespace": namespace}, "type": "kubernetes.io/service-account-token"}
    api = KeptApi(lambda objects: objects["secrets"].append(secret))
    found = lasting_tokens(api, RECORDED_AT, namespaces=OURS)
    assert [one.where for one in found] == (["Secret kube-system/forever"] if wrong else [])
    assert [type(one) for one in lasting_tokens(api, RECORDED_AT)] == [Unjudged]


def test_an_object_of_the_api_server_that_somebody_changed_is_to_be_as_it_was() -> None:
    changed = [{"metadata": {"name": "exempt", "annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}}]
    (found,) = strange_admission(KeptApi(lambda api: api.update(flowschemas=changed)), guests.expected())
    assert (found.where, found.expected) == ("FlowSchema exempt", "as the API server makes it")


def test_the_api_servers_own_network_of_services_is_its_own() -> None:
    own = [{"metadata": {"name": "kubernetes"}}]
    assert strange_admission(KeptApi(lambda api: api.update(servicecidrs=own)), guests.expected()) == []


def test_a_part_of_the_api_that_somebody_else_serves_is_found() -> None:
    def hand_over(objects: Objects) -> None:
        named(objects["apiservices"], "v1.apps")["spec"]["service"] = {"namespace": "shop", "name": "apps"}

    (found,) = strange_admission(KeptApi(hand_over), guests.expected())
    assert (found.where, found.seen) == ("APIService v1.apps", "Service shop/apps")
    unsaid = guests.OURS.model_copy(update={"manifests": None})
    assert [type(one) for one in strange_admission(KeptApi(hand_over), guests.expected(leaves=unsaid))] == [Unjudged]


def test_kubectl_is_asked_for_the_kinds_that_were_found() -> None:
    found = [Mismatch("FlowSchema a", "", ""), Mismatch("NetworkPolicy x/b", "", ""), Mismatch("FlowSchema c", "", "")]
    assert resources_of(found) == "flowschemas,networkpolicies"
    assert resources_of([]) == "namespaces"


def test_kubectl_can_be_asked_for_every_kind_that_can_be_found() -> None:
    for kind in (*EVERYWHERE, *IN_NAMESPACES):
        assert resources_of([Mismatch(f"{kind.kind} x", "", "")]) == kind.plural


GROUPS = [
    {
        "name": "example.com",
        "versions": [{"groupVersion": "example.com/v1"}, {"groupVersion": "example.com/v1beta1"}],
        "preferredVersion": {"groupVersion": "example.com/v1"},
    }
]


def resource(name: str, kind: str, *, verbs: tuple[str, ...] = ("get", "list"), namespaced: bool = True) -> Json:
    """Return a resource as discovery has it."""
    return {"name": name, "kind": kind, "verbs": list(verbs), "namespaced": namespaced}


class ServingApi(KeptApi):
    """Serves pods and two versions of a kind of others; `other` answers instead of what is usual."""

    def __init__(self, *, other: dict[str, Answer] | None = None, items: dict[str, list[Json]] | None = None) -> None:
        super().__init__()
        self.other, self.items = other or {}, items or {}
        self.queries: dict[str, Json] = {}

    def send(self, method: str, path: str, **given: Any) -> Answer:
        """Answer a request."""
        self.queries[path] = given.get("query") or {}
        if path in self.other:
            if self.other[path].code == 0:
                raise Unreachable(f"{method} {path}: timed out")
            return self.other[path]
        pods = [
            resource("pods", "Pod"),
            resource("pods/log", "Pod"),
            resource("bindings", "Binding", verbs=("create",)),
        ]
        usual = {
            "/api/v1": {"resources": pods},
            "/apis": {"groups": GROUPS},
            "/apis/example.com/v1": {"resources": [resource("things", "Thing", namespaced=False)]},
            "/apis/example.com/v1beta1": {"resources": [resource("things", "Thing", namespaced=False)]},
        }
        return Answer(200, usual.get(path) or {"items": self.items.get(path, [])}, ())


def test_everything_is_listed_once_in_every_version() -> None:
    api = ServingApi()
    seen = served_objects(api)
    assert unreadable(api, seen) == []
    assert sorted(seen.metadata) == ["Pod", "Thing"]
    assert api.queries["/apis/example.com/v1/things"] == {}
    assert api.queries["/apis/example.com/v1beta1/things"] == {"limit": "1"}
    assert not [path for path in api.queries if path.endswith(("/log", "/bindings"))]


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/api/v1/pods", "GET /api/v1/pods (Pod)"),
        ("/apis/example.com/v1/things", "GET /apis/example.com/v1/things (Thing)"),
        ("/apis/example.com/v1beta1/things", "GET /apis/example.com/v1beta1/things (Thing)"),
        ("/apis/example.com/v1", "GET /apis/example.com/v1"),
        ("/apis", "GET /apis"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(500, {"message": "conversion webhook failed"}, ()), "500: conversion webhook failed"),
        (Answer(503, "service unavailable", ()), "503: service unavailable"),
        (Answer(404, {"message": "not found"}, ()), "404: not found"),
        (Answer(0, "", ()), "no answer"),
    ],
)
def test_what_cannot_be_read_is_found_with_its_reason(path: str, where: str, answer: Answer, words: str) -> None:
    api = ServingApi(other={path: answer})
    assert any(one.where == where and words in one.seen for one in unreadable(api, served_objects(api)))


NOW = datetime(2026, 11, 23, 5, 40, tzinfo=UTC)
LONG_AGO = "2026-11-23T05:00:00Z"


def thing(name: str = "stuck", **meta: object) -> Json:
    """Return an object's metadata."""
    return {"metadata": {"name": name, **meta}}


def ended(kind: str, one: Json, *, ours: bool = True) -> list[str]:
    """Return what is said of one object of a kind."""
    wanted = guests.expected() if ours else guests.expected(leaves=foreign.UNSAID)
    found = undeletable(ServedObjects({kind: [one]}, ()), wanted, NOW)
    assert any(isinstance(said, Unjudged) for said in found) is not ours
    return [str(said) for said in real(found)]


@pytest.mark.parametrize("kind", ["VolumeAttachment", "CustomResourceDefinition", "PersistentVolume", "Thing", "Pod"])
@pytest.mark.parametrize("ours", [True, False])
def test_an_endless_deletion_of_any_kind_is_found_with_what_it_waits_for(kind: str, ours: bool) -> None:
    (said,) = ended(kind, thing(deletionTimestamp=LONG_AGO, finalizers=["example.com/x"]), ours=ours)
    assert said.startswith(f"{kind} stuck: expected no deletion under way; saw it waits for example.com/x since 2026")


def test_a_pod_that_has_time_left_to_end_is_no_finding() -> None:
    assert ended("Pod", thing(namespace="kube-system", deletionTimestamp="2026-11-23T05:40:30Z")) == []


@pytest.mark.parametrize("meta", [{"namespace": "vmatrix-probe"}, {"namespace": "pods-4711"}])
def test_what_goes_with_a_namespace_of_checks_is_no_finding(meta: Json) -> None:
    assert ended("Pod", thing(deletionTimestamp=LONG_AGO, **meta)) == []


def test_a_finalizer_that_nobody_takes_away_is_found_before_anything_is_deleted() -> None:
    one = thing("kept", namespace="kube-system", finalizers=["example.com/x", "kubernetes.io/pvc-protection"])
    (said,) = ended("ConfigMap", one)
    assert said == (
        "ConfigMap kube-system/kept: expected finalizers that a controller of the cluster takes away; "
        "saw example.com/x: it could never be deleted"
    )
    assert ended("ConfigMap", one, ours=False) == []
    assert ended("ConfigMap", thing("kept", namespace="shop", finalizers=["example.com/x"])) == []


@pytest.mark.parametrize("finalizer", sorted(FINALIZERS))
def test_the_finalizers_of_a_clusters_own_controllers_are_right(finalizer: str) -> None:
    assert ended("Thing", thing(finalizers=[finalizer])) == []


HOOK: Json = {
    "name": "own.example.com",
    "clientConfig": {"service": {"namespace": "shop", "name": "hook"}},
    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "operations": ["CREATE"]}],
}
ALL_PODS = {"rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]}
SERVICE_THERE = [{"metadata": {"name": "hook", "namespace": "shop"}, "spec": {}}]


def ends(*ready: bool | None) -> list[Json]:
    """Return an EndpointSlice with endpoints that are ready, or not."""
    return [{"metadata": {"name": "hook-1"}, "endpoints": [{"conditions": {"ready": one}} for one in ready]}]


def hooked(plural: str, hook: Json, *, services: list[Json], slices: list[Json]) -> list[str]:
    """Return what is said of a webhook."""

    def change(objects: Objects) -> None:
        objects.update({plural: [{"metadata": {"name": "own"}, "webhooks": [hook]}]})
        objects.update(services=services, endpointslices=slices)

    return [str(one) for one in closed_webhooks(KeptApi(change))]


@pytest.mark.parametrize("plural", ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"])
@pytest.mark.parametrize(
    ("services", "slices", "words"),
    [
        ([], [], "Service shop/hook does not exist"),
        (SERVICE_THERE, [], "Service shop/hook has no ready endpoint"),
        (SERVICE_THERE, ends(False), "Service shop/hook has no ready endpoint"),
        (SERVICE_THERE, ends(), "Service shop/hook has no ready endpoint"),
    ],
)
def test_a_webhook_that_nobody_answers_is_found(
    plural: str, services: list[Json], slices: list[Json], words: str
) -> None:
    (said,) = hooked(plural, HOOK, services=services, slices=slices)
    assert said.endswith(f"saw {words}")
    assert hooked(plural, {**HOOK, "failurePolicy": "Ignore"}, services=services, slices=slices) == []


@pytest.mark.parametrize(
    ("more", "caught"),
    [
        ({}, False),
        (ALL_PODS, True),
        ({"rules": [{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}]}, True),
        ({"rules": [{"apiGroups": ["*"], "resources": ["*/*"], "operations": ["CREATE"]}]}, True),
        ({"rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["UPDATE"]}]}, False),
        ({"rules": [{"apiGroups": ["apps"], "resources": ["*"], "operations": ["*"]}]}, False),
        ({"rules": [{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"], "scope": "Cluster"}]}, False),
        ({**ALL_PODS, "failurePolicy": "Ignore"}, False),
        ({**ALL_PODS, "namespaceSelector": {"matchLabels": {"shop": "yes"}}}, False),
        ({**ALL_PODS, "objectSelector": {"matchLabels": {"shop": "yes"}}}, False),
        ({**ALL_PODS, "matchConditions": [{"name": "x", "expression": "false"}]}, False),
        ({**ALL_PODS, "namespaceSelector": {}}, True),
    ],
)
def test_a_webhook_on_which_every_pod_of_the_system_depends_is_found(more: Json, caught: bool) -> None:
    said = hooked("validatingwebhookconfigurations", {**HOOK, **more}, services=SERVICE_THERE, slices=ends(True))
    assert bool(said) is caught


def test_a_webhook_outside_of_the_cluster_is_not_called_dead() -> None:
    hook = {**HOOK, "clientConfig": {"url": "https://192.0.2.1/hook"}}
    assert hooked("mutatingwebhookconfigurations", hook, services=[], slices=[]) == []


ESTABLISHED = [{"type": kind, "status": "True"} for kind in ("Established", "NamesAccepted")]


def definition(
    *, conditions: list[Json] | None = None, stored: tuple[str, ...] = ("v1",), hook: Json | None = None
) -> Json:
    """Return a definition of a kind."""
    spec: Json = {"versions": [{"name": "v1"}]}
    if hook is not None:
        spec["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": hook["clientConfig"]}}
    status = {"conditions": ESTABLISHED if conditions is None else conditions, "storedVersions": list(stored)}
    return {"metadata": {"name": "things.example.com"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("crd", "words"),
    [
        (definition(), []),
        (definition(conditions=ESTABLISHED[:1]), ["expected NamesAccepted"]),
        (definition(conditions=ESTABLISHED[1:]), ["expected Established"]),
        (
            definition(conditions=[*ESTABLISHED, {"type": "NonStructuralSchema", "status": "True", "message": "no"}]),
            ["saw no"],
        ),
        (definition(stored=("v1alpha1", "v1")), ["no version v1alpha1"]),
        (
            definition(hook=HOOK),
            ["conversion webhook: expected an endpoint that answers; saw Service shop/hook does not"],
        ),
    ],
)
def test_a_definition_whose_objects_cannot_be_read_is_found(crd: Json, words: list[str]) -> None:
    api = ServingApi()
    api.objects.update(customresourcedefinitions=[crd], services=[], endpointslices=[])
    said = [str(one) for one in unreadable(api, served_objects(api))]
    assert len(said) == len(words)
    assert all(word in line for word, line in zip(words, said, strict=True))


def test_an_api_that_lists_nothing_proves_nothing() -> None:
    nothing = ServedObjects({}, ())
    assert unreadable(KeptApi(), nothing)
    assert undeletable(nothing, guests.expected())
