"""Rights that Kubernetes' own accounts have lost are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.validate.findings import Unjudged
from harness.validate.judge.needed_rights import lost_rights
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Json
from tests.unit.validate.kept import KeptApi


def test_a_fresh_cluster_passes() -> None:
    api = KeptApi(allowed=lambda _: True)
    assert lost_rights(api, guests.expected()) == []
    users = {spec["user"] for spec in api.reviews}
    assert {"system:kube-scheduler", "system:serviceaccount:kube-system:kube-proxy", "system:node:w-0"} <= users


@pytest.mark.parametrize(
    ("user", "resource", "words"),
    [
        ("system:kube-scheduler", "pods", "system:kube-scheduler: expected the right to create pods/binding"),
        (
            "system:serviceaccount:kube-system:endpointslice-controller",
            "endpointslices",
            "endpointslice-controller: expected the right to create endpointslices; saw refused",
        ),
        ("system:anonymous", "configmaps", "expected the right to get configmaps cluster-info in kube-public"),
        ("system:bootstrap:vmatrix", "nodes", "system:bootstrappers:kubeadm:default-node-token: expected the right to"),
        ("system:node:w-0", "certificatesigningrequests", "system:nodes: expected the right to create certificates"),
    ],
)
def test_a_lost_right_is_found(user: str, resource: str, words: str) -> None:
    def allowed(spec: Json) -> bool:
        return (spec["user"], spec["resourceAttributes"]["resource"]) != (user, resource)

    (found,) = lost_rights(KeptApi(allowed=allowed), guests.expected())
    assert words in str(found)


def test_a_cluster_without_kube_proxy_has_no_such_account() -> None:
    api = KeptApi(allowed=lambda _: True)
    assert lost_rights(api, replace(guests.expected(), kube_proxy_mode="none")) == []
    assert not any("kube-proxy" in spec["user"] for spec in api.reviews)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = lost_rights(KeptApi(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
