"""The second network plugin: nodes become routes, rules and a CNI configuration; only what differs is changed."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.playbooks.playbook_files import module

routes = module("roles/network_plugin/files/pod_routes.py")


def node(name: str, subnet: str | None, address: str) -> dict[str, Any]:
    spec = {"podCIDR": subnet} if subnet else {}
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]},
    }


def test_a_node_without_a_subnet_yet_is_left_out() -> None:
    found = routes.subnets([node("a", "10.243.0.0/24", "10.0.0.2"), node("b", None, "10.0.0.3")])
    assert found == {"a": ("10.243.0.0/24", "10.0.0.2")}


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


def test_the_configuration_is_a_bridge_in_the_nodes_subnet() -> None:
    bridge, portmap = json.loads(routes.cni_configuration("10.243.1.0/24", "10.243.0.0/16", 1450, "iptables"))[
        "plugins"
    ]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.243.1.0/24"}]]
    assert bridge["mtu"] == 1450
    assert portmap["backend"] == "iptables"
