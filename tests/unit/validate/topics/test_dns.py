"""Lines that are not kubeadm's, endpoints that are no pods, and names that DNS does not pass on are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.topics.dns import LINES, answering, not_passed_on, wrong_corefile, wrong_services
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, Objects, named
from tests.unit.validate.surrounded import setups

TEXT = "\n".join(LINES).replace("{domain}", "cluster.local").replace("{cache}", "30")


def test_only_a_well_guest_passes() -> None:
    assert wrong_corefile({"Corefile": TEXT}, guests.expected()) == []
    assert wrong_corefile({"Corefile": TEXT.replace("\n", "\n   ") + "\n"}, guests.expected()) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("forward . /etc/resolv.conf", "forward . 192.0.2.53", "saw `forward . 192.0.2.53 {`"),
        ("errors", "errrors", "saw `errrors`"),
        ("cache 30", "cache 300", "saw `cache 300 {`"),
        ("loop\n", "", "the line `loop`; saw no such line"),
        ("errors\n", "errors\nhosts { }\n", "saw `hosts { }`"),
        ("loop\nreload", "reload\nloop", "kubeadm's order"),
    ],
)
def test_another_line_is_found(old: str, new: str, words: str) -> None:
    assert words in str([str(one) for one in wrong_corefile({"Corefile": TEXT.replace(old, new)}, guests.expected())])


def test_the_cell_decides_how_long_answers_are_kept() -> None:
    variables = {**guests.VARIABLES, "cluster_coredns_cache_seconds": 5}
    assert wrong_corefile({"Corefile": TEXT}, guests.expected(variables=variables))
    assert wrong_corefile({"Corefile": TEXT.replace("cache 30", "cache 5")}, guests.expected(variables=variables)) == []


def test_a_configmap_without_a_corefile_is_found() -> None:
    (found,) = wrong_corefile({"Corefile2": TEXT}, guests.expected())
    assert "expected the key Corefile; saw Corefile2" in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = wrong_corefile({}, guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}, {"protocol": "TCP", "port": 9153}]


def piece(namespace: str, service: str, *addresses: str) -> Json:
    meta = {"namespace": namespace, "name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}}
    return {"metadata": meta, "endpoints": [{"addresses": [address]} for address in addresses]}


def judged(change: Change = lambda _: None, leaves: ClusterLeaves = guests.OURS) -> list[Mismatch]:
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

    return wrong_services(KeptApi(fill), guests.expected(leaves=leaves))


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
    def change(objects: Objects) -> None:
        named(objects["services"], "kube-dns")["spec"].update({key: value})

    (found,) = judged(change, guests.OURS.model_copy(update={"manifests": None}))
    assert found.where == "Service kube-system/kube-dns"
    assert key in found.expected
    assert judged(change) == []  # it is compared with its manifest


def test_what_others_dns_service_is_like_is_theirs() -> None:
    def change(objects: Objects) -> None:
        named(objects["services"], "kube-dns")["spec"]["externalIPs"] = ["192.0.2.66"]
        objects["endpointslices"].append(piece("kube-system", "kube-dns", "10.243.0.9"))

    found = judged(change, foreign.UNSAID)
    assert [isinstance(one, Unjudged) for one in found] == [False, True]


NAME = "vmatrix-1.example.com"
SERVERS = {"10.95.0.10": "the DNS Service", "10.243.0.3": "a DNS pod"}
OWN = {"cp-0": "10.222.1.254", "w-0": "10.222.1.254"}
EXPECTED = guests.expected()


def codes(other: Mapping[tuple[str, str], int], *, without: int = 0) -> Any:
    """Return what lets machines ask: every server answers that there is no such name, but for some on some nodes."""

    def ask(given: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
        return {
            node: [["code", server, name, other.get((node, server), 3)] for server, name in asked["code"]][without:]
            for node, asked in given.items()
        }

    return ask


def test_names_that_are_passed_on_are_right() -> None:
    assert answering(setups(), NAME, EXPECTED, codes({})) == OWN
    assert not_passed_on(OWN, SERVERS, NAME, EXPECTED, codes({})) == []


@pytest.mark.parametrize("code", [-1, 2, 5])
def test_machines_without_a_name_server_that_answers_are_left_out(code: int) -> None:
    dead = codes({("cp-0", "10.222.1.254"): code})
    assert answering(setups(), NAME, EXPECTED, dead) == {"w-0": "10.222.1.254"}


@pytest.mark.parametrize(("code", "said"), [(-1, "no answer"), (2, "SERVFAIL"), (5, "REFUSED"), (4, "code 4")])
def test_a_dns_pod_that_does_not_pass_on_is_found(code: int, said: str) -> None:
    (found,) = not_passed_on(OWN, SERVERS, NAME, EXPECTED, codes({("w-0", "10.243.0.3"): code}))
    assert str(found) == (
        f"w-0 -> a DNS pod (10.243.0.3:53): expected an answer for {NAME}, as 10.222.1.254 gives it to the machine; "
        f"saw {said}"
    )


def test_servers_and_answers_that_are_missing_are_found() -> None:
    assert len(not_passed_on(OWN, SERVERS, NAME, EXPECTED, codes({}, without=1))) == 2
    assert not_passed_on(OWN, {"": "the DNS Service"}, NAME, EXPECTED, codes({}))
