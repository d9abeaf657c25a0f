"""The object of a set, as kubectl reads it.

The identifier is the one that `kubectl apply --prune --applyset=configmap/shop -n kube-system` makes.
"""

from __future__ import annotations

from harness.kube.applyset import ApplySetParent, kinds_of, namespaces_of

PARENT = ApplySetParent("shop", "kube-system", "vmatrix/v1.0.0")
KINDS = {("", "Service"), ("apps", "Deployment")}


def test_the_identifier_is_that_of_the_specification() -> None:
    assert PARENT.id == "applyset-mDhfYdSSUp3OsatNJF_C5_fpCpnrd-EvnHDs5Hj0qTY-v1"
    assert len(PARENT.id) <= 63
    assert ApplySetParent("shop", "default", "x").id != PARENT.id


def test_the_object_names_the_kinds_and_the_other_namespaces() -> None:
    body = PARENT.body(KINDS, {"web", "", "kube-system"}, {"a": "b"})
    assert body["metadata"]["labels"] == {"a": "b", "applyset.kubernetes.io/id": PARENT.id}
    assert body["metadata"]["annotations"] == {
        "applyset.kubernetes.io/tooling": "vmatrix/v1.0.0",
        "applyset.kubernetes.io/contains-group-kinds": "Deployment.apps,Service",
        "applyset.kubernetes.io/additional-namespaces": "web",
    }
    assert (kinds_of(body), namespaces_of(body)) == (KINDS, {"web"})


def test_a_set_without_an_object_has_nothing() -> None:
    assert (kinds_of(None), namespaces_of(None)) == (set(), set())
