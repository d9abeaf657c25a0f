"""Each network plugin's traces on nodes: those of a well guest pass, each fault is found, other plugins' traces too."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, NotJudged, real, require
from harness.validate.topics import pod_network
from harness.validate.topics.pod_network import wrong_network_files
from harness.validate.topics.system_pods import wrong_image_versions
from tests.unit.validate import foreign, guests, views
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.surrounded import VARIABLES, setups
from tests.unit.validate.views import view

Judge = Callable[[Mapping[str, NodeFacts], ExpectedGuest], list[Mismatch]]
ROUTED: Json = {**guests.VARIABLES, "cluster_network_plugin": "routes"}


def routes(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return pod_network.wrong_routes(seen, view(), wanted)


JUDGES: tuple[Judge, ...] = (routes, pod_network.wrong_tunnels, pod_network.wrong_plugin_units)


def routed(change: Change = lambda _: None) -> Change:
    """Turn the recorded worker, which has flannel, into one with host routes; then change it."""

    def both(raw: Json) -> None:
        flannel, own = raw["units"]["flannel-cni.path"], raw["units"]["pod-routes.service"]
        flannel.update(LoadState="not-found", ActiveState="inactive", UnitFileState="")
        own.update(LoadState="loaded", ActiveState="active", SubState="running", UnitFileState="enabled")
        raw["links"] = [link for link in raw["links"] if link["ifname"] != "flannel.1"]
        for route in raw["routes"]:
            if route["dev"] == "flannel.1":
                route.update(dev="eth0", protocol="250", flags=[], gateway=addresses[route["dst"]])
        change(raw)

    addresses = {"10.243.0.0/24": "10.222.1.2", "10.243.1.0/24": "10.222.1.3"}
    return both


def routed_facts(change: Change = lambda _: None) -> dict[str, NodeFacts]:
    seen = {name: guests.facts(routed(), of=name)[name] for name in ("cp-0", "w-0")}
    return {**seen, "w-0": guests.facts(routed(change), of="w-0")["w-0"]}


@pytest.mark.parametrize("judge", JUDGES)
def test_a_well_guest_passes_with_its_own_plugin_only(judge: Judge) -> None:
    flannel, plain = guests.expected(), guests.expected(variables=ROUTED)
    assert judge(guests.facts(), flannel) == []
    assert judge(routed_facts(), plain) == []
    assert {finding.where.split()[0] for finding in judge(guests.facts(), plain)} == {"cp-0", "w-0"}
    assert {finding.where.split()[0] for finding in judge(routed_facts(), flannel)} == {"cp-0", "w-0"}


@pytest.mark.parametrize("judge", JUDGES)
def test_machines_that_were_not_seen_are_found(judge: Judge) -> None:
    assert {finding.where for finding in judge({}, guests.expected())} == {"cp-0", "w-0"}


def of(unit: str, **fields: str) -> Change:
    return lambda raw: raw["units"][unit].update(fields)


def gateway(text: str) -> Change:
    return lambda raw: next(r for r in raw["routes"] if r["dst"] == "10.243.0.0/24").update(gateway=text)


def without_route(raw: Json) -> None:
    raw["routes"] = [route for route in raw["routes"] if route["dst"] != "10.243.0.0/24"]


def stale_route(raw: Json) -> None:
    raw["routes"].append({"dst": "10.243.7.0/24", "gateway": "10.222.1.9", "dev": "eth0", "protocol": "250"})


def link(name: str, kind: str) -> Change:
    return lambda raw: raw["links"].append({"ifname": name, "linkinfo": {"info_kind": kind}})


FAULTS: list[tuple[Judge, Change, str]] = [
    (routes, without_route, "saw None"),
    (routes, gateway("10.222.1.9"), "saw '10.222.1.9'"),
    (routes, stale_route, "10.243.7.0/24"),
    (routes, lambda raw: raw.update(routes=[]), "saw None"),
    (pod_network.wrong_tunnels, link("flannel.1", "vxlan"), "flannel.1"),
    (pod_network.wrong_tunnels, link("geneve_sys", "geneve"), "geneve_sys"),
    (pod_network.wrong_tunnels, lambda raw: raw.update(links=[]), "a list of its interfaces"),
    (pod_network.wrong_plugin_units, of("pod-routes.service", ActiveState="failed"), "failed"),
    (pod_network.wrong_plugin_units, of("pod-routes.service", UnitFileState="disabled"), "disabled"),
    (pod_network.wrong_plugin_units, of("flannel-cni.path", LoadState="loaded"), "not to be installed"),
    (pod_network.wrong_plugin_units, lambda raw: raw.update(units={}), "no answer"),
]


@pytest.mark.parametrize(("judge", "fault", "said"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change, said: str) -> None:
    found = judge(routed_facts(fault), guests.expected(variables=ROUTED))
    assert found
    assert all(finding.where.startswith("w-0") for finding in found)
    assert any(said in str(finding) for finding in found)


def test_a_tunnel_that_is_missing_is_found() -> None:
    seen = guests.facts(lambda raw: raw.update(links=raw["links"][:2]), of="w-0")
    (finding,) = pod_network.wrong_tunnels(seen, guests.expected())
    assert finding.where == "w-0"
    assert finding.seen == "no flannel.1"


def test_a_node_without_a_pod_network_of_its_own_is_found() -> None:
    def unnumbered(raw: Json) -> None:
        for key in ("podCIDR", "podCIDRs"):
            raw["nodes"][1]["spec"].pop(key)

    found = pod_network.wrong_routes(guests.facts(), view(unnumbered), guests.expected())
    assert any("the pod network of w-0" in finding.expected for finding in found)


def test_a_plugin_without_an_image_has_no_version_to_look_for() -> None:
    plain = guests.expected(variables={k: v for k, v in ROUTED.items() if k != "cluster_flannel_version"})
    assert plain.plugin_version == ""
    assert wrong_image_versions(view(lambda raw: raw.update(pods=_without(raw["pods"], "kube-flannel"))), plain) == []


def _without(pods: list[Json], start: str) -> list[Json]:
    return [pod for pod in pods if not pod["metadata"]["name"].startswith(start)]


UNKNOWN = guests.expected(variables={**guests.VARIABLES, "cluster_network_plugin": "calico"})


@pytest.mark.parametrize(
    "judge", [lambda f: pod_network.wrong_routes(f, view(), UNKNOWN), lambda f: pod_network.wrong_tunnels(f, UNKNOWN)]
)
def test_the_inside_of_a_plugin_that_nobody_describes_is_not_judged(judge: Callable[[Any], list[Mismatch]]) -> None:
    with pytest.raises(NotJudged, match=r"neither product.yml nor network_plugins.yml describes .* 'calico'"):
        require(judge(guests.facts()), claim="", look="", do="")


@pytest.mark.parametrize("leaves", [ClusterLeaves(), guests.OURS.model_copy(update={"network_plugins": None})])
def test_the_unit_of_a_plugin_that_the_product_does_not_describe_is_no_other_plugins(leaves: ClusterLeaves) -> None:
    assert real(pod_network.wrong_plugin_units(guests.facts(), guests.expected(leaves=leaves))) == []


def test_units_of_other_plugins_are_judged_without_a_description_of_the_cells_own() -> None:
    found = pod_network.wrong_plugin_units(guests.facts(), UNKNOWN)
    assert [one.where for one in real(found)] == ["cp-0 flannel-cni.path", "w-0 flannel-cni.path"]


def test_only_networks_are_compared_with_the_pod_network() -> None:
    whole = ipaddress.ip_network("10.243.0.0/16")
    assert pod_network._within("10.243.1.0/24", whole)
    assert not pod_network._within("default", whole)
    assert not pod_network._within("10.222.1.0/24", whole)


@pytest.mark.parametrize(("mtu", "good"), [(1450, True), (1400, True), (1500, False)])
def test_a_tunnel_whose_packets_do_not_fit_into_its_link_is_found(mtu: int, good: bool) -> None:
    def change(raw: Json) -> None:
        next(link for link in raw["links"] if link["ifname"] == "flannel.1")["mtu"] = mtu

    found = pod_network.wrong_tunnels(guests.facts(change), guests.expected())
    wrong = "cp-0 flannel.1: expected an MTU of at most 1450, for eth0; saw 1500"
    assert [str(one) for one in found] == ([] if good else [wrong])


EXPECTED = guests.expected(variables=VARIABLES)
FILE = "10-flannel.conflist"


def judged(change: Change = lambda _: None, facts: dict[str, NodeFacts] | None = None) -> list[Mismatch]:
    return wrong_network_files(setups(change), facts or guests.facts(), views.view(), EXPECTED)


def no_pods(raw: guests.Json) -> None:
    raw.update(bridged={})


def sized(mtus: dict[str, int]) -> dict[str, NodeFacts]:
    """Return facts with other MTUs."""
    return {name: replace(seen, mtus={**seen.mtus, **mtus}) for name, seen in guests.facts().items()}


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in judged()] == []
    assert wrong_network_files({}, {}, views.view(), EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["cni"].update({"00-other.conflist": {}}), "00-other.conflist"),
        (lambda raw: raw["cni"].update({FILE: None}), "expected JSON"),
        (lambda raw: raw["cni"][FILE]["plugins"][0].update(mtu=9000), "mtu 1450, as cni0 has it"),
        (lambda raw: raw["cni"][FILE]["plugins"].pop(), "plugins as on cp-0, ['bridge', 'portmap']; saw ['bridge']"),
        (
            lambda raw: raw["cni"][FILE]["plugins"][0].update(ipam={"ranges": [[{"subnet": "10.243.9.0/24"}]]}),
            "subnets other than 10.243.1.0/24 []; saw ['10.243.9.0/24']",
        ),
        (lambda raw: raw.update(cni={}), FILE),
    ],
)
def test_a_wrong_file_is_found(change: Change, words: str) -> None:
    assert words in "; ".join(map(str, judged(change)))


def test_a_wrong_mtu_is_found_on_a_node_without_pods() -> None:
    def change(raw: guests.Json) -> None:
        no_pods(raw)
        raw["cni"][FILE]["plugins"][0].update(mtu=9000)

    assert [str(one) for one in judged(change)] == [
        f"w-0 /etc/cni/net.d/{FILE}: expected mtu 1450, as flannel.1 has it; saw 9000"
    ]


def test_a_bridge_that_no_pod_is_on_has_the_kernels_mtu() -> None:
    facts = sized({"cni0": 1500})
    assert "mtu 1500, as cni0 has it" in "; ".join(map(str, judged(facts=facts)))
    assert "w-0" not in "; ".join(map(str, judged(no_pods, facts)))


def test_without_a_tunnel_the_mtu_is_at_most_that_of_a_link() -> None:
    plugin = EXPECTED.plugin
    assert plugin is not None
    routes = replace(EXPECTED, plugin=plugin.model_copy(update={"tunnel": None}))

    def large(raw: guests.Json) -> None:
        no_pods(raw)
        raw["cni"][FILE]["plugins"][0].update(mtu=9000)

    assert wrong_network_files(setups(no_pods), guests.facts(), views.view(), routes) == []
    found = wrong_network_files(setups(large), guests.facts(), views.view(), routes)
    assert ["mtu 1500 at most" in str(one) for one in found] == [True]


def test_mtus_and_subnets_of_a_plugin_that_nobody_describes_are_its_own() -> None:
    def change(raw: guests.Json) -> None:
        no_pods(raw)
        raw["cni"][FILE]["plugins"][0].update(mtu=1280, ipam={"subnet": "10.1.0.0/16"})

    unsaid = foreign.expected(foreign.UNSAID)
    assert unsaid.plugin is None
    assert wrong_network_files(setups(change), guests.facts(), views.view(), unsaid) == []
