"""Objects that change, refuse or limit others are found, unless the product says that they are its own."""

from __future__ import annotations

import pytest

from harness.kube.client import ApiFailure, Listing
from harness.kube.resources import Resource
from harness.validate.findings import Unjudged
from harness.validate.judge.admission import strange_admission
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
