"""Endpoints that are no pods, and a strange DNS Service, are found."""

from __future__ import annotations

import pytest

from harness.validate.findings import Mismatch, Unjudged
from harness.validate.judge.services import wrong_services
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, Objects, named

PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}, {"protocol": "TCP", "port": 9153}]


def piece(namespace: str, service: str, *addresses: str) -> Json:
    meta = {"namespace": namespace, "name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}}
    return {"metadata": meta, "endpoints": [{"addresses": [address]} for address in addresses]}


def judged(change: Change = lambda _: None, *, unsaid: bool = False) -> list[Mismatch]:
    def fill(objects: Objects) -> None:
        spec = {"clusterIP": "10.95.0.10", "type": "ClusterIP", "ports": list(PORTS)}
        places = (("kube-system", "kube-dns"), ("default", "kubernetes"), ("team", "own"))
        objects["services"] = [{"metadata": {"namespace": s, "name": n}, "spec": dict(spec)} for s, n in places]
        objects["pods"] = [{"metadata": {"namespace": "kube-system"}, "status": {"podIP": "10.243.0.2"}}]
        objects["endpointslices"] = [
            piece("kube-system", "kube-dns", "10.243.0.2"),
            piece("default", "kubernetes", "10.222.1.2"),
            piece("team", "own", "192.0.2.1"),
        ]
        change(objects)

    return wrong_services(KeptApi(fill), guests.expected(leaves=foreign.UNSAID) if unsaid else guests.expected())


def test_only_a_well_cluster_passes() -> None:
    assert judged() == []
    (found,) = judged(lambda objects: objects["services"].clear())
    assert str(found) == "the cluster: expected a Service of the DNS server; saw none"


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        (piece("kube-system", "kube-dns", "10.243.0.2", "10.243.0.9"), "Service kube-system/kube-dns"),
        (piece("default", "kubernetes", "10.222.1.9"), "Service default/kubernetes"),
    ],
)
def test_an_endpoint_that_is_gone_is_found(slices: Json, words: str) -> None:
    (found,) = judged(lambda objects: objects["endpointslices"].append(slices))
    assert words in found.where
    assert found.seen.endswith(".9")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("externalIPs", ["192.0.2.66"]),
        ("type", "NodePort"),
        ("internalTrafficPolicy", "Local"),
        ("sessionAffinity", "ClientIP"),
        ("ports", PORTS[:2]),
    ],
)
def test_a_strange_dns_service_is_found(key: str, value: object) -> None:
    (found,) = judged(lambda objects: named(objects["services"], "kube-dns")["spec"].update({key: value}))
    assert found.where == "Service kube-system/kube-dns"
    assert key in found.expected


def test_what_others_dns_service_is_like_is_theirs() -> None:
    def change(objects: Objects) -> None:
        named(objects["services"], "kube-dns")["spec"]["externalIPs"] = ["192.0.2.66"]
        objects["endpointslices"].append(piece("kube-system", "kube-dns", "10.243.0.9"))

    found = judged(change, unsaid=True)
    assert [isinstance(one, Unjudged) for one in found] == [False, True]
