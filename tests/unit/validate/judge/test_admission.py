"""Objects that change, refuse or limit others are found, unless the product says that they are its own."""

from __future__ import annotations

import pytest

from harness.validate.judge.admission import strange_admission
from harness.validate.judge.finding import Unjudged
from tests.unit.validate import foreign, guests
from tests.unit.validate.kept import KeptApi

OWN = [{"metadata": {"name": "system-node-critical"}}]


def test_a_fresh_cluster_has_none() -> None:
    assert strange_admission(KeptApi(lambda api: api.update(priorityclasses=OWN)), guests.expected()) == []


@pytest.mark.parametrize(
    ("plural", "namespace", "words"),
    [
        ("mutatingwebhookconfigurations", "", "MutatingWebhookConfiguration strange"),
        ("priorityclasses", "", "PriorityClass strange"),
        ("resourcequotas", "kube-system", "ResourceQuota kube-system/strange"),
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
