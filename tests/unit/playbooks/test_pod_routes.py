"""The second network plugin: nodes become routes, rules and a CNI configuration; only what differs is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from tests.unit.playbooks.playbook_files import module
from tests.unit.playbooks.test_templates import render

routes = module("roles/network_plugin/files/pod_routes.py")


def node(name: str, subnets: list[str], *addresses: str) -> dict[str, Any]:
    spec = {"podCIDR": subnets[0], "podCIDRs": subnets} if subnets else {}
    internal = [{"type": "InternalIP", "address": address} for address in addresses]
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"addresses": [{"type": "Hostname", "address": name}, *internal]},
    }


def test_a_node_without_a_subnet_yet_is_left_out() -> None:
    found = routes.subnets([node("a", ["10.243.0.0/24"], "10.0.0.2"), node("b", [], "10.0.0.3")], 4)
    assert found == {"a": ("10.243.0.0/24", "10.0.0.2")}


def test_each_family_has_its_own_subnets() -> None:
    nodes = [
        node("a", ["10.243.0.0/24", "fd10:243::/64"], "10.0.0.2", "fd00::2"),
        node("b", ["10.243.1.0/24", "fd10:243:0:1::/64"], "10.0.0.3"),
    ]
    assert routes.subnets(nodes, 6) == {"a": ("fd10:243::/64", "fd00::2")}
    assert routes.subnets(nodes, 4) == {"a": ("10.243.0.0/24", "10.0.0.2"), "b": ("10.243.1.0/24", "10.0.0.3")}


def test_changes_only_routes_that_differ() -> None:
    present = [
        {"dst": "10.243.1.0/24", "gateway": "10.0.0.3"},
        {"dst": "10.243.2.0/24", "gateway": "10.0.0.9"},
        {"dst": "10.243.7.0/24", "gateway": "10.0.0.7"},
    ]
    wanted = {"10.243.1.0/24": "10.0.0.3", "10.243.2.0/24": "10.0.0.4"}
    assert routes.route_changes(wanted, present) == [
        ["route", "del", "10.243.7.0/24", "proto", "250"],
        ["route", "replace", "10.243.2.0/24", "via", "10.0.0.4", "proto", "250"],
    ]
    assert routes.route_changes(wanted, [{"dst": key, "gateway": value} for key, value in wanted.items()]) == []


def test_pods_keep_their_address_inside_the_pod_network_only() -> None:
    rules = routes.masquerade("10.243.1.0/24", "10.243.0.0/16")
    assert "ip saddr 10.243.1.0/24 ip daddr != 10.243.0.0/16" in rules
    assert rules.splitlines()[1] == "delete table ip pod-routes"
    rules = routes.masquerade("fd10:243::/64", "fd10:243::/56")
    assert "ip6 saddr fd10:243::/64 ip6 daddr != fd10:243::/56 ip6 daddr != ff00::/8 masquerade" in rules
    assert rules.splitlines()[1] == "delete table ip6 pod-routes"


FAMILIES = (("10.243.1.0/24", "10.243.0.0/16"), ("fd10:243::/64", "fd10:243::/56"))


@pytest.mark.parametrize(("own", "pods"), FAMILIES)
def test_blocks_of_rules_end_on_lines_of_their_own(own: str, pods: str) -> None:
    """A block that ends behind another one on its line is an error of nft's syntax."""
    assert not any(line.count("}") and line.strip() != "}" for line in routes.masquerade(own, pods).splitlines())


CHECK = ("unshare", "--net", "nft", "--check", "--file", "-")


@pytest.fixture(scope="module")
def nft() -> Callable[[str], object]:
    """Return what has nft read rules, without effect; skip where it cannot, as in most containers."""
    try:
        proc.run(CHECK, timeout=60, stdin="")
    except proc.CommandFailed as error:
        pytest.skip(f"nft reads no rules here: {error}")
    return lambda rules: proc.run(CHECK, timeout=60, stdin=rules)


@pytest.mark.parametrize(("own", "pods"), FAMILIES)
def test_nft_reads_the_rules(own: str, pods: str, nft: Callable[[str], object]) -> None:
    nft(routes.masquerade(own, pods))
    with pytest.raises(proc.CommandFailed, match="ended with status 1"):
        nft("table ip a { chain b { } }")


def test_the_configuration_is_a_bridge_in_the_nodes_subnets(tmp_path: Path) -> None:
    given = {
        "cluster_network_plugin": "routes",
        "cluster_ipv6_pod_cidr": "fd10::/56",
        "cluster_kube_proxy_mode": "iptables",
    }
    place = render("cp1-w1", tmp_path, frozenset({"pod-routes.conflist"}), **given)
    outline = (place / "pod-routes.conflist").read_text(encoding="utf-8")
    bridge, portmap = json.loads(routes.cni_configuration(outline, ["10.243.1.0/24", "fd10::/64"], 1450))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.243.1.0/24"}], [{"subnet": "fd10::/64"}]]
    assert bridge["ipam"]["routes"] == [{"dst": "10.243.0.0/16"}, {"dst": "fd10::/56"}]
    assert bridge["mtu"] == 1450
    assert portmap["backend"] == "iptables"
