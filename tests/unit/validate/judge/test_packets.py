"""Rules and queues in the way of packets are found, and rules that lead Services elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.validate.facts.packets import MachinePackets, packets_of
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.judge.packets import endpoints_of, obstacles, strayed_rules
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, Objects

EXPECTED = guests.expected()
API, DNS = ("10.222.1.2", 6443), ("10.243.0.2", 53)


def packets(change: Change = lambda _: None) -> dict[str, MachinePackets]:
    """Return what the machines of a well guest do with packets; what w-0 does, changed."""
    raw = {
        name: {
            "iptables": [["ip filter", "-A INPUT -j KUBE-FIREWALL"], ["ip nat", "-A POSTROUTING -j FLANNEL-POSTRTG"]],
            "nftables": [["ip filter", "INPUT", "OUTPUT"], ["ip kube-proxy", "filter-input"], ["ip6 kube-proxy"]],
            "destinations": [["10.222.1.2", "6443"], ["10.243.0.2", "53"]],
            "queues": {"lo": "noqueue", "eth0": "fq_codel"},
            "timeouts": {"nf_conntrack_tcp_timeout_established": "86400"},
        }
        for name in ("cp-0", "w-0")
    }
    change(raw["w-0"])
    return {name: packets_of(one) for name, one in raw.items()}


def api(change: Callable[[Objects], None] = lambda _: None) -> KeptApi:
    """Return the API of a guest with two Services."""

    def piece(namespace: str, name: str, address: str, port: int) -> Json:
        meta = {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": name}}
        return {"metadata": meta, "ports": [{"port": port}], "endpoints": [{"addresses": [address]}]}

    def fill(objects: Objects) -> None:
        names = (("default", "kubernetes"), ("kube-system", "kube-dns"))
        objects["services"] = [
            {"metadata": {"namespace": s, "name": n}, "spec": {"clusterIP": "10.95.0.1"}} for s, n in names
        ]
        objects["endpointslices"] = [piece("default", "kubernetes", *API), piece("kube-system", "kube-dns", *DNS)]
        change(objects)

    return KeptApi(fill)


def strayed(change: Change = lambda _: None, of_api: Callable[[Objects], None] = lambda _: None) -> list[Mismatch]:
    return strayed_rules(*endpoints_of(api(of_api)), packets(change), EXPECTED)


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in obstacles(packets(), EXPECTED)] == []
    assert [str(one) for one in strayed()] == []
    accepting = '-A FORWARD -m comment --comment "allowed" -m mark --mark 0x20000/0x20000 -j ACCEPT'
    assert obstacles(packets(lambda raw: raw["iptables"].append(["ip filter", accepting])), EXPECTED) == []
    assert obstacles({}, EXPECTED)
    assert strayed_rules({API}, {API}, {}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda raw: raw["iptables"].append(["ip filter", "-A INPUT -p tcp --dport 9100 -j DROP"]),
            "--dport 9100 -j DROP",
        ),
        (
            lambda raw: raw["iptables"].append(["ip filter", "-A INPUT -m mark --mark 0x1/0x1 -j ACCEPT"]),
            "--mark 0x1/0x1 -j ACCEPT",
        ),
        (
            lambda raw: raw["iptables"].append(["ip filter", "-A INPUT -m mark --mark 0x20000/0x20000 -j DROP"]),
            "--mark 0x20000/0x20000 -j DROP",
        ),
        (lambda raw: raw["iptables"].append(["ip filter", "-P FORWARD DROP"]), "w-0 iptables ip filter"),
        (lambda raw: raw["iptables"].append(["ip filter", "-A INPUT -p tcp"]), "-A INPUT -p tcp"),
        (lambda raw: raw["nftables"].append(["ip fault", "input"]), "saw table ip fault"),
        (lambda raw: raw["nftables"][0].append("evil"), "table ip filter: expected iptables' own chains; saw evil"),
        (lambda raw: raw["queues"].update(eth0="netem"), "w-0 eth0"),
        (lambda raw: raw.update(queues={}), "a list of its interfaces"),
    ],
)
def test_what_is_in_the_way_is_found(change: Change, words: str) -> None:
    (found,) = obstacles(packets(change), EXPECTED)
    assert words in str(found)


def test_a_rule_that_leads_nowhere_is_found() -> None:
    def change(raw: Json) -> None:
        raw["destinations"][1][0] = "10.243.0.250"

    assert [str(one) for one in strayed(change)] == [
        "w-0 kube-proxy: expected a rule that leads to the endpoint 10.243.0.2:53; saw none",
        "w-0 kube-proxy: expected rules that lead to endpoints of Services only; saw 10.243.0.250:53",
    ]


def gone(objects: Objects) -> None:
    objects["endpointslices"][1]["endpoints"][0]["conditions"] = {"ready": False}


def local(objects: Objects) -> None:
    objects["services"][1]["spec"]["internalTrafficPolicy"] = "Local"


def headless(objects: Objects) -> None:
    objects["services"][1]["spec"]["clusterIP"] = "None"


@pytest.mark.parametrize("of_api", [gone, local, headless])
def test_an_endpoint_that_need_not_be_reached_may_be(of_api: Callable[[Objects], None]) -> None:
    assert strayed(of_api=of_api) == []
    assert strayed(lambda raw: raw["destinations"].pop(), of_api) == []


def test_a_cluster_without_endpoints_proves_nothing() -> None:
    found = strayed(of_api=lambda objects: objects["endpointslices"].clear())
    assert found[0].where == "the API"


def test_what_nobody_describes_is_not_judged() -> None:
    (found,) = obstacles(packets(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
    (found,) = strayed_rules({API}, {API}, packets(), replace(EXPECTED, kube_proxy_mode="ipvs"))
    assert isinstance(found, Unjudged)
