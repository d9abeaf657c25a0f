"""Objects that change, refuse or limit others, and what waits for ever in a guest's API, are found."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from harness.kube.client import ApiFailure, Listing
from harness.kube.resources import Resource
from harness.validate.findings import Unjudged
from harness.validate.topics.cluster_objects import lasting_tokens, strange_admission, unfinished
from tests.unit.validate import foreign, guests
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


RECORDED_AT = datetime(2026, 11, 23, 5, 40, tzinfo=UTC)


def unavailable(objects: Objects) -> None:
    named(objects["apiservices"], "v1.apps")["status"]["conditions"][0].update(status="False", message="no endpoints")


def without_condition(objects: Objects) -> None:
    named(objects["apiservices"], "v1.apps")["status"] = {}


def deleted(name: str) -> Callable[[Objects], None]:
    meta = {"name": name, "deletionTimestamp": "2026-11-23T05:00:00Z"}
    return lambda objects: objects["namespaces"].append({"metadata": meta, "status": {"phase": "Terminating"}})


def ending(plural: str, **meta: object) -> Callable[[Objects], None]:
    one = {"metadata": {"name": "stuck", "deletionTimestamp": "2026-11-23T05:00:00Z", **meta}}
    return lambda objects: objects.setdefault(plural, []).append(one)


def failed(objects: Objects) -> None:
    objects["persistentvolumes"] = [{"metadata": {"name": "lost"}, "status": {"phase": "Failed"}}]


def pending(objects: Objects) -> None:
    objects["certificatesigningrequests"][0]["status"] = {}


def test_a_well_cluster_passes() -> None:
    assert unfinished(KeptApi()) == []
    assert lasting_tokens(KeptApi(), RECORDED_AT) == []


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        (unavailable, "APIService v1.apps", "no endpoints"),
        (without_condition, "APIService v1.apps", "None"),
        (deleted("stuck"), "Namespace stuck", "Terminating"),
        (
            ending("customresourcedefinitions", finalizers=["example.com/x"]),
            "CustomResourceDefinition stuck",
            "example.com/x",
        ),
        (ending("persistentvolumes"), "PersistentVolume stuck", "something else"),
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

    (found,) = lasting_tokens(KeptApi(change), RECORDED_AT)
    assert found.where.startswith("Secret kube-system/bootstrap-token-")
    assert found.seen == seen


@pytest.mark.parametrize(("namespace", "wrong"), [("kube-system", True), ("team", False)])
def test_accounts_of_the_cluster_have_no_tokens_for_ever(namespace: str, wrong: bool) -> None:
    secret = {"metadata": {"name": "forever", "namespace": namespace}, "type": "kubernetes.io/service-account-token"}
    api = KeptApi(lambda objects: objects["secrets"].append(secret))
    found = lasting_tokens(api, RECORDED_AT, namespaces=guests.expected().namespaces)
    assert [one.where for one in found] == (["Secret kube-system/forever"] if wrong else [])
    assert lasting_tokens(api, RECORDED_AT) == []
