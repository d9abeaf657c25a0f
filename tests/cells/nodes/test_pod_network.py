"""Every node has the network plugin's routes, tunnel and unit, and no other plugin's."""

from __future__ import annotations

from harness.validate.commands import on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import require
from harness.validate.topics import pod_network


def test_nodes_have_a_route_to_every_other_nodes_pods(
    facts: dict[str, NodeFacts], view: ClusterView, expected: ExpectedGuest
) -> None:
    require(
        pod_network.wrong_routes(facts, view, expected),
        claim=f"every node has routes to the pods of all other nodes only, via {pod_network.gateway_words(expected)}",
        look=expected.look,
        do=on_machine(expected, "ip route"),
    )


def test_nodes_have_the_network_plugins_tunnel_and_no_other(
    facts: dict[str, NodeFacts], expected: ExpectedGuest
) -> None:
    require(
        pod_network.wrong_tunnels(facts, expected),
        claim=f"the tunnels on every node are those of {expected.network_plugin}: {pod_network.tunnel(expected)}",
        look=expected.look,
        do=on_machine(expected, "ip -details link"),
    )


def test_the_network_plugins_unit_runs_and_is_enabled(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    unit = pod_network.unit(expected)
    require(
        pod_network.wrong_plugin_units(facts, expected),
        claim=f"{unit} runs and is enabled on every node, and no other plugin's unit is installed",
        look=f"journalctl -u {unit} on the machine",
        do=on_machine(expected, f"systemctl status {unit}"),
    )
