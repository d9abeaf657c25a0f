"""A cluster of both IP families: each is judged by its own networks and addresses, and one that is missing is found."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

import pytest

from harness.kube.client import ApiFailure, Cluster
from harness.validate import probes
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import facts_of
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.probes import DialResult, ProbePod, Probes
from harness.validate.topics import ip_families, pod_network
from harness.validate.topics.kube_proxy import wrong_proxy_mode
from harness.validate.topics.kubeadm import wanted_flags
from harness.validate.topics.nodes import wrong_node_networks
from harness.validate.topics.operating_system import wrong_kernel_settings
from harness.validate.topics.pod_network import wrong_network_files
from tests.unit.validate import guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.views import named, view

IPV6 = {"cluster_ipv6_pod_cidr": "fd10:243::/56", "cluster_ipv6_service_cidr": "fd10:95::/112"}
ADDRESSES = {"cp-0": "fd76:6d78::2", "w-0": "fd76:6d78::3"}
SUBNETS = {"cp-0": "fd10:243::/64", "w-0": "fd10:243:0:1::/64"}
DUAL = replace(guests.expected(variables={**guests.VARIABLES, **IPV6}), ipv6_addresses=ADDRESSES)
SINGLE = guests.expected()


def both(raw: Json) -> None:
    """Give the recorded nodes and pods an address of the second family."""
    for node in raw["nodes"]:
        name = node["metadata"]["name"]
        node["spec"]["podCIDRs"] = [node["spec"]["podCIDR"], SUBNETS[name]]
        node["status"]["addresses"].insert(1, {"type": "InternalIP", "address": ADDRESSES[name]})
    for place, pod in enumerate(raw["pods"]):
        status, node = pod["status"], pod["spec"].get("nodeName", "")
        second = (
            ADDRESSES[node] if pod["spec"].get("hostNetwork") else f"{SUBNETS[node].removesuffix('/64')}{place + 9:x}"
        )
        status["podIPs"] = [{"ip": status["podIP"]}, {"ip": second}]


def in_both(change: Change) -> Change:
    def changed(raw: Json) -> None:
        both(raw)
        change(raw)

    return changed


def w_0(change: Change) -> Change:
    return in_both(lambda raw: change(named(raw["nodes"], "w-0")))


def of_coredns(change: Change) -> Change:
    return in_both(lambda raw: change(named(raw["pods"], "coredns")))


def test_each_family_is_the_guest_with_its_own_networks_alone() -> None:
    first, second = DUAL.families
    assert (first.version, first.pod_cidr, first.addresses["w-0"]) == (4, "10.243.0.0/16", "10.222.1.3")
    assert (second.version, second.pod_cidr, second.addresses["w-0"]) == (6, "fd10:243::/56", "fd76:6d78::3")
    assert second.service_cidr == "fd10:95::/112"
    assert (first.dual, second.dual, SINGLE.families) == (False, False, (SINGLE,))
    assert DUAL.tunnels == ("flannel.1", "flannel-v6.1")
    assert (DUAL.pod_cidrs, SINGLE.pod_cidrs) == ("10.243.0.0/16,fd10:243::/56", "10.243.0.0/16")


ALONE = replace(
    guests.expected(
        variables={**guests.VARIABLES, "cluster_pod_cidr": "fd10:243::/56", "cluster_service_cidr": "fd10:95::/112"}
    ),
    addresses=ADDRESSES,
)


def test_a_guest_of_ipv6_alone_has_that_family_only() -> None:
    assert ALONE.families == (ALONE,)
    assert (ALONE.version, ALONE.dual, ALONE.ipv6, SINGLE.ipv6, DUAL.ipv6) == (6, False, True, False, True)
    assert ALONE.tunnels == ("flannel-v6.1",)
    assert (ALONE.loopback, DUAL.loopback) == ("::1", "127.0.0.1")
    flags = wanted_flags("etcd", "cp-0", ALONE)
    assert flags["listen-client-urls"] == "https://[::1]:2379,https://[fd76:6d78::2]:2379"
    assert flags["listen-metrics-urls"] == "http://[::1]:2381"
    assert wanted_flags("kube-apiserver", "cp-0", ALONE)["etcd-servers"] == "https://[::1]:2379"
    assert wanted_flags("kubelet", "w-0", ALONE)["node-ip"] == "fd76:6d78::3"
    assert [one.has for one in ip_families.asked(ALONE)] == [(6,), None, (6,), None]


def test_flags_have_the_networks_and_addresses_of_both_families() -> None:
    assert wanted_flags("kubelet", "w-0", DUAL)["node-ip"] == "10.222.1.3,fd76:6d78::3"
    assert wanted_flags("kubelet", "w-0", SINGLE)["node-ip"] == "10.222.1.3"
    assert wanted_flags("kube-controller-manager", "cp-0", DUAL)["cluster-cidr"] == "10.243.0.0/16,fd10:243::/56"


def test_nodes_and_pods_of_both_families_are_right() -> None:
    assert wrong_node_networks(view(both), DUAL) == []


@pytest.mark.parametrize(
    ("expected", "change", "said"),
    [
        (SINGLE, both, "InternalIP"),
        (SINGLE, both, "IP families of podCIDRs"),
        (SINGLE, both, "IP families of its addresses"),
        (DUAL, lambda _: None, "InternalIP"),
        (DUAL, lambda _: None, "a podCIDR within fd10:243::/56"),
        (DUAL, w_0(lambda n: n["status"]["addresses"].pop(1)), "InternalIP"),
        (DUAL, w_0(lambda n: n["spec"]["podCIDRs"].pop()), "a podCIDR within fd10:243::/56"),
        (DUAL, w_0(lambda n: n["spec"].update(podCIDRs=["10.243.1.0/24", "fd99::/64"])), "a podCIDR within fd10:243::"),
        (
            DUAL,
            w_0(lambda n: n["spec"].update(podCIDRs=["10.243.1.0/24", SUBNETS["cp-0"]])),
            "other nodes with fd10:243",
        ),
        (DUAL, w_0(lambda n: n["spec"]["podCIDRs"].reverse()), "IP families of podCIDRs"),
        (DUAL, of_coredns(lambda p: p["status"]["podIPs"].pop()), "IP families of its addresses"),
        (DUAL, of_coredns(lambda p: p["status"]["podIPs"][1].update(ip="fd10:243:0:9::9")), "an address within fd10"),
    ],
)
def test_what_one_family_lacks_or_has_too_much_is_found(expected: ExpectedGuest, change: Change, said: str) -> None:
    found = wrong_node_networks(view(change), expected)
    assert any(said in str(one) for one in found)


def routed(raw: Json, *, other: str, tunnel_mtu: int = 1430) -> None:
    """Give a recorded machine the routes and the tunnel of the second family."""
    subnet = SUBNETS[other]
    raw["ipv6_routes"] = [
        {"dst": "default", "gateway": "fd76:6d78::fe", "dev": "eth0", "flags": []},
        {"dst": subnet, "gateway": subnet.removesuffix("/64"), "dev": "flannel-v6.1", "flags": ["onlink"]},
    ]
    (vxlan,) = [link for link in raw["links"] if link["ifname"] == "flannel.1"]
    raw["links"].append({**copy.deepcopy(vxlan), "ifname": "flannel-v6.1", "mtu": tunnel_mtu})
    raw["sysctls"] |= {key: "1" for key in raw["sysctls"] if fnmatchcase(key, "net.ipv6.conf.*.forwarding")}
    raw["sysctls"] |= {"net.ipv6.conf.all.forwarding": "1", "net.bridge.bridge-nf-call-ip6tables": "1"}
    raw["nft_tables"].append("table ip6 kube-proxy")


def facts(change: Change = lambda _: None) -> Any:
    """Return the facts of machines of both families, those of w-0 changed."""
    raw = {name: guests.raw_facts(name) for name in ADDRESSES}
    routed(raw["cp-0"], other="w-0")
    routed(raw["w-0"], other="cp-0")
    change(raw["w-0"])
    return {name: facts_of(one) for name, one in raw.items()}


def test_machines_of_both_families_are_right() -> None:
    assert pod_network.wrong_routes(facts(), view(both), DUAL) == []
    assert pod_network.wrong_tunnels(facts(), DUAL) == []
    assert wrong_kernel_settings(facts(), DUAL) == []
    assert wrong_proxy_mode(facts(), DUAL) == []


def test_what_a_machine_lacks_of_a_family_is_found() -> None:
    (found,) = pod_network.wrong_routes(facts(lambda raw: raw["ipv6_routes"].pop()), view(both), DUAL)
    assert "w-0" in str(found)
    assert "route to fd10:243::/64" in str(found)
    found_tunnels = pod_network.wrong_tunnels(facts(lambda raw: raw["links"].pop()), DUAL)
    assert "flannel-v6.1" in str(found_tunnels[0])
    assert "flannel-v6.1" in str(pod_network.wrong_tunnels(facts(), SINGLE)[0])
    (large,) = pod_network.wrong_tunnels(facts(lambda raw: raw["links"][-1].update(mtu=1450)), DUAL)
    assert "an MTU of at most 1430" in str(large)
    settings = wrong_kernel_settings(facts(lambda r: r["sysctls"].update({"net.ipv6.conf.all.forwarding": "0"})), DUAL)
    assert settings
    assert all("w-0" in str(setting) and "net.ipv6.conf.all.forwarding" in str(setting) for setting in settings)
    (table,) = wrong_proxy_mode(facts(lambda raw: raw.update(nft_tables=["table ip kube-proxy"])), DUAL)
    assert "table ip6 kube-proxy" in str(table)


def test_a_kube_proxy_of_ipv6_alone_has_rules_of_that_family() -> None:
    assert wrong_proxy_mode(facts(), ALONE) == []
    (table,) = wrong_proxy_mode(facts(lambda raw: raw.update(nft_tables=["table ip kube-proxy"])), ALONE)
    assert "table ip6 kube-proxy" in str(table)


def setups(subnets: Mapping[str, list[str]], mtu: int = 1430) -> dict[str, MachineSetup]:
    """Return machines whose pod network's file has these subnets."""

    def one(name: str) -> MachineSetup:
        ranges = [[{"subnet": subnet}] for subnet in subnets[name]]
        plugin = {"type": "bridge", "bridge": "cni0", "mtu": mtu, "ipam": {"type": "host-local", "ranges": ranges}}
        return cast(MachineSetup, _Setup({"10-flannel.conflist": {"plugins": [plugin]}}))

    return {name: one(name) for name in subnets}


class _Setup:
    """What the judgement of network files looks at."""

    def __init__(self, cni: Mapping[str, Any]) -> None:
        self.cni, self.bridged = cni, dict[str, int]()


def test_the_pod_networks_file_has_the_subnets_of_both_families() -> None:
    right = {"cp-0": ["10.243.0.0/24", SUBNETS["cp-0"]], "w-0": ["10.243.1.0/24", SUBNETS["w-0"]]}
    assert wrong_network_files(setups(right), facts(), view(both), DUAL) == []
    wrong = {**right, "w-0": ["10.243.1.0/24", SUBNETS["cp-0"]]}
    (found,) = wrong_network_files(setups(wrong), facts(), view(both), DUAL)
    assert "fd10:243::/64" in str(found)
    assert all("mtu 1430" in str(one) for one in wrong_network_files(setups(right, 1450), facts(), view(both), DUAL))
    assert wrong_network_files(setups(right, 1450), facts(), view(both), DUAL)


PODS = {
    name: ProbePod(f"probe-{name}", name, (f"10.243.{n}.9", f"fd10:243:0:{n}::9")) for n, name in enumerate(ADDRESSES)
}


class Answering(Probes):
    """Probes that get an answer everywhere but at some places."""

    def dial(self, node: str, host: str, port: int, request: str, **_: Any) -> DialResult:
        """Answer."""
        if (node, host) == SILENT:
            return DialResult((), ("timed out",))
        return DialResult(("probe-x",), ())


SILENT = ("w-0", "fd10:95::9")
PROBES = Answering(None, PODS, PODS, ("10.95.0.7", "fd10:95::7"), 30080, 1.0)  # type: ignore[arg-type]


def test_each_family_is_judged_with_the_probes_of_its_own_addresses() -> None:
    asked: list[tuple[str, str]] = []

    def judge(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
        asked.append((probes.dialled["w-0"].address, probes.service_address))
        return [Mismatch("w-0", "anything", expected.addresses["w-0"])]

    found = probes.of_each_family(PROBES, DUAL, judge)
    assert asked == [("10.243.1.9", "10.95.0.7"), ("fd10:243:0:1::9", "fd10:95::7")]
    assert [one.seen for one in found] == ["10.222.1.3", "fd76:6d78::3"]
    assert len(probes.of_each_family(PROBES, SINGLE, judge)) == 1
    nobody_says = replace(SINGLE, pod_cidr="")
    six = replace(PROBES, dialled={"w-0": ProbePod("p", "w-0", ("fd10::9",))}, service_addresses=("fd10:95::7",))
    probes.of_each_family(six, nobody_says, judge)
    assert asked[-1] == ("fd10::9", "fd10:95::7")


class Api:
    """An API server that gives Services addresses of its families, and refuses what it lacks."""

    def __init__(self, *families: str) -> None:
        self.families, self.number = families, 6

    def ensure(self, _: Any, body: Json) -> Json:
        """Create a Service."""
        spec = body["spec"]
        wanted = spec.get("ipFamilies") or (
            self.families if spec["ipFamilyPolicy"] != "SingleStack" else self.families[:1]
        )
        if set(wanted) - set(self.families) or (
            spec["ipFamilyPolicy"] == "RequireDualStack" and len(self.families) < 2
        ):
            raise ApiFailure(422, "Invalid", "not configured for dual-stack services", [], request="POST")
        self.number += 1
        forms = {"IPv4": f"10.95.0.{self.number}", "IPv6": f"fd10:95::{self.number}"}
        return {"spec": {"clusterIPs": [forms[family] for family in wanted]}}


def created(expected: ExpectedGuest, *families: str) -> dict[str, tuple[str, ...] | None]:
    return ip_families.create(cast(Cluster, Api(*families)), ip_families.asked(expected))


def test_services_have_the_families_that_they_ask_for() -> None:
    assert ip_families.wrong_families(created(DUAL, "IPv4", "IPv6"), DUAL) == []
    assert ip_families.wrong_families(created(SINGLE, "IPv4"), SINGLE) == []
    assert created(SINGLE, "IPv4") == {
        "first-family": ("10.95.0.7",),
        "other-family": None,
        "preferred": ("10.95.0.8",),
        "required": None,
    }


def test_services_of_other_families_are_found() -> None:
    lacking = ip_families.wrong_families(created(DUAL, "IPv4"), DUAL)
    assert [one.where.split()[1] for one in lacking] == ["other-family", "preferred", "required"]
    too_much = ip_families.wrong_families(created(SINGLE, "IPv4", "IPv6"), SINGLE)
    assert [one.where.split()[1] for one in too_much] == ["other-family", "preferred", "required"]
    unknown = guests.expected(variables={k: v for k, v in guests.VARIABLES.items() if k != "cluster_pod_cidr"})
    (said,) = ip_families.wrong_families(created(SINGLE, "IPv4"), unknown)
    assert isinstance(said, Unjudged)


def test_an_address_that_does_not_answer_is_found() -> None:
    given = created(DUAL, "IPv4", "IPv6")
    found = ip_families.silent_addresses(PROBES, given, DUAL)
    assert {str(one).partition(":")[0] for one in found} == {"w-0 -> fd10"}
    assert ip_families.silent_addresses(PROBES, dict.fromkeys(given), DUAL)


def test_records_of_other_families_are_found() -> None:
    given = created(DUAL, "IPv4", "IPv6")

    def ask(records: Mapping[str, str]) -> Any:
        def answer(asked: Mapping[str, Any]) -> Any:
            return {
                node: [["records", server, name, records[name.split(".")[0]]] for server, name in one["records"]]
                for node, one in asked.items()
            }

        return answer

    right = {"first-family": "1 0", "other-family": "0 1", "preferred": "1 1", "required": "1 1"}
    assert ip_families.wrong_records("10.95.0.10", given, DUAL, ask(right)) == []
    found = ip_families.wrong_records("10.95.0.10", given, DUAL, ask({**right, "preferred": "1 0", "required": ""}))
    assert len(found) == 4
    assert any("no answer" in str(one) for one in found)
