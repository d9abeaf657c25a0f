"""kube-proxy's wrong modes, settings and rules are found, and one that a cell leaves out is missed by no judgement."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.validate.expected import LEFT_OUT, ExpectedGuest
from harness.validate.facts.node import HttpAnswer, NodeFacts
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.topics.addons import unready_daemon_sets
from harness.validate.topics.kube_proxy import (
    MachinePackets,
    endpoints_of,
    missing_rules,
    obstacles,
    packets_of,
    services_of,
    strayed_rules,
    wrong_proxy_mode,
    wrong_proxy_settings,
)
from harness.validate.topics.programs import unhealthy_agents
from harness.validate.topics.system_pods import wrong_image_versions
from harness.validate.variables import SKIPPED, without_kube_proxy
from tests.unit.validate import foreign, guests, surrounded, views
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, put
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, Objects
from tests.unit.validate.surrounded import PROXY, running, setups

JUDGES: tuple[Judge, ...] = (wrong_proxy_mode,)
FAULTS: list[tuple[Judge, Change]] = [
    (
        wrong_proxy_mode,
        lambda raw: raw["endpoints"].update({"kube-proxy mode": {"status": 200, "body": "iptables"}}),
    ),
    (wrong_proxy_mode, put("nft_tables", ["table ip filter"])),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


EXPECTED = guests.expected()


def kept(**settings: Any) -> KeptApi:
    """Return an API that keeps kube-proxy's settings."""
    written = {"clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"}}
    data = {"config.conf": yaml.safe_dump({**PROXY, **written, **settings})}

    def change(objects: Objects) -> None:
        objects["configmaps"] = [{"metadata": {"name": "kube-proxy", "namespace": "kube-system"}, "data": data}]

    return KeptApi(change)


def reports(**settings: Any) -> Change:
    body = json.dumps({"kubeproxy.config.k8s.io": {**PROXY, **settings}})
    return lambda raw: raw["kube_proxy"].update(body=body)


def test_only_a_well_guests_settings_pass() -> None:
    assert [str(one) for one in wrong_proxy_settings(kept(), running(), EXPECTED)] == []
    assert wrong_proxy_settings(kept(), {}, EXPECTED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusterCIDR": "10.9.0.0/16"}, "clusterCIDR '10.243.0.0/16'; saw '10.9.0.0/16'"),
        ({"nftables": {"masqueradeAll": True}}, "nftables.masqueradeAll False; saw True"),
    ],
)
def test_another_setting_is_found(settings: dict[str, Any], words: str) -> None:
    assert words in str([str(one) for one in wrong_proxy_settings(kept(), running(reports(**settings)), EXPECTED)])


def older(**settings: Any) -> Change:
    """Return what kube-proxy answered before 1.36: the names of its own structure."""
    internal = {
        "BindAddress": PROXY["bindAddress"],
        "ClientConnection": {"Kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"},
        "DetectLocal": {"ClusterCIDRs": ["10.243.0.0/16"]},
        "DetectLocalMode": "ClusterCIDR",
        "EnableProfiling": False,
        "Linux": {"MasqueradeAll": False, "Conntrack": {"MaxPerCore": 32768}},
        "Mode": EXPECTED.kube_proxy_mode,
        **settings,
    }
    body = json.dumps({"kubeproxy.config.k8s.io": internal})
    return lambda raw: raw["kube_proxy"].update(body=body)


def test_the_form_of_before_1_36_is_understood() -> None:
    assert [str(one) for one in wrong_proxy_settings(kept(), running(older()), EXPECTED)] == []
    for settings, words in (
        ({"DetectLocal": {"ClusterCIDRs": ["10.9.0.0/16"]}}, "clusterCIDR '10.243.0.0/16'; saw '10.9.0.0/16'"),
        ({"Linux": {"MasqueradeAll": True}}, "masqueradeAll False; saw True"),
        ({"Mode": "userspace"}, "mode"),
        ({"EnableProfiling": True}, "enableProfiling False; saw True"),
    ):
        assert words in str([str(one) for one in wrong_proxy_settings(kept(), running(older(**settings)), EXPECTED)])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusterCIDR": "10.8.0.0/16"}, "clusterCIDR '10.243.0.0/16'; saw '10.8.0.0/16'"),
        ({"mode": "iptables"}, "mode 'nftables'; saw 'iptables'"),
        ({"bindAddress": "192.0.2.1"}, "bindAddress '0.0.0.0'; saw '192.0.2.1'"),
        ({"clientConnection": {"kubeconfig": "/other"}}, "clientConnection.kubeconfig"),
        ({"portRange": "1-2"}, "no portRange, for which nobody asked; saw '1-2'"),
        ({"iptables": {"localhostNodePorts": False}}, "no iptables.localhostNodePorts"),
        ({"ipvs": {"strictARP": True}}, "no ipvs.strictARP"),
        ({"nodePortAddresses": ["primary"]}, "no nodePortAddresses"),
    ],
)
def test_a_configmap_with_other_settings_is_wrong_and_not_the_pods(settings: Json, words: str) -> None:
    (found,) = wrong_proxy_settings(kept(**settings), running(), EXPECTED)
    assert found.where == "ConfigMap kube-system/kube-proxy"
    assert words in str(found)


@pytest.mark.parametrize("settings", [{"detectLocalMode": "ClusterCIDR"}, {"iptables": {"masqueradeAll": False}}])
def test_a_default_that_is_written_out_is_no_finding(settings: Json) -> None:
    assert wrong_proxy_settings(kept(**settings), running(), EXPECTED) == []


def test_pods_that_do_not_obey_the_configmap_of_others_are_found_with_both() -> None:
    wanted = replace(EXPECTED, leaves=EXPECTED.leaves.model_copy(update={"manifests": None}))
    found = wrong_proxy_settings(kept(clusterCIDR="10.8.0.0/16"), running(), wanted)
    said = [str(one) for one in found if "clusterCIDR" in one.expected]
    assert len(said) == 2
    assert "ConfigMap kube-system/kube-proxy: '10.8.0.0/16'" in said[0]


def test_a_missing_rule_is_found() -> None:
    services = {("10.95.0.1", "tcp", 443), ("10.95.0.10", "udp", 53)}
    assert missing_rules(services, setups(), EXPECTED) == []
    assert missing_rules(set(), setups(), EXPECTED)
    (found,) = missing_rules(services, setups(lambda raw: raw["rules"].pop()), EXPECTED)
    assert "w-0 kube-proxy: expected a rule for 10.95.0.10 udp 53" in str(found)
    (found,) = missing_rules(services, setups(lambda raw: raw.update(rules=None)), EXPECTED)
    assert "a running kube-proxy" in str(found)


def test_services_without_an_address_need_no_rules() -> None:
    ports = [{"port": 80}, {"port": 53, "protocol": "UDP"}]
    objects = [{"spec": {"clusterIP": "10.95.0.9", "ports": ports}}, {"spec": {"clusterIP": "None", "ports": ports}}]
    assert services_of(KeptApi(lambda api: api.update(services=objects))) == {
        ("10.95.0.9", "tcp", 80),
        ("10.95.0.9", "udp", 53),
    }


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


def test_only_a_well_guests_rules_pass() -> None:
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


def expected() -> ExpectedGuest:
    return guests.expected(variables={**guests.VARIABLES, SKIPPED: ["addon/kube-proxy"]})


def without(facts: dict[str, NodeFacts]) -> dict[str, NodeFacts]:
    """Return machines on which kube-proxy never ran."""
    found: dict[str, NodeFacts] = {}
    for name, seen in facts.items():
        processes = tuple(one for one in seen.processes if one.name != "kube-proxy")
        silent = HttpAnswer(0, "connection refused")
        answers = {key: silent if "kube-proxy" in key else one for key, one in seen.endpoints.items()}
        tables = tuple(table for table in seen.nft_tables if "kube-proxy" not in table)
        found[name] = replace(seen, processes=processes, endpoints=answers, nft_tables=tables)
    return found


def no_proxy(raw: Json) -> None:
    for kind in ("pods", "daemon_sets"):
        raw[kind][:] = [one for one in raw[kind] if not one["metadata"]["name"].startswith("kube-proxy")]


def test_machines_without_kube_proxy_pass() -> None:
    facts = without(guests.facts())
    assert expected().kube_proxy_mode == LEFT_OUT
    assert wrong_proxy_mode(facts, expected()) == []
    assert unhealthy_agents(facts, expected()) == []
    assert unready_daemon_sets(views.view(no_proxy), expected()) == []
    assert wrong_image_versions(views.view(no_proxy), expected()) == []
    assert strayed_rules(set(), set(), {}, expected()) == []


def test_a_kube_proxy_that_runs_nevertheless_is_found() -> None:
    found = wrong_proxy_mode(guests.facts(), expected())
    assert {one.where for one in found} == {"cp-0", "w-0"}
    assert any("no kube-proxy: the cell leaves it out; saw it runs" in str(one) for one in found)
    (kept,) = unready_daemon_sets(views.view(), expected())
    assert str(kept).startswith("DaemonSet kube-system/kube-proxy: expected not to exist: the cell leaves out")
    rules = missing_rules(set(), surrounded.setups(), expected())
    assert {one.seen for one in rules} == {"it runs"}


def test_only_that_phase_leaves_it_out() -> None:
    assert not without_kube_proxy({SKIPPED: ["show-join-command"]})
    assert not without_kube_proxy({})


def test_a_folder_of_the_cells_own_is_where_certificates_are_expected(tmp_path: Path) -> None:
    folder = str(tmp_path)
    moved = guests.expected(variables={**guests.VARIABLES, "cluster_certificates_folder": folder}).leaves
    assert (moved.certificates, moved.local_api.ca) == (folder, f"{folder}/ca.crt")
    assert guests.OURS.certificates == "/etc/kubernetes/pki"
