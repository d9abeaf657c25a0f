"""What must be true of every node's part of the pod network: its routes, its tunnel, the plugin's unit.

Whether packets arrive is judged in network.py.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.network_plugins import Gateway, plugins
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.mismatch import Mismatch, differs, of_each, on_every, same_set

Facts = Mapping[str, NodeFacts]
TUNNELS = frozenset({"vxlan", "geneve", "wireguard"})  # kinds of interfaces that wrap packets, as ip names them
LOOPBACK = "lo"


def pod_networks(view: ClusterView) -> dict[str, str]:
    """Return the pod network (CIDR) of every node that has one."""
    networks = {node["metadata"]["name"]: node["spec"].get("podCIDR", "") for node in view.nodes}
    return {name: network for name, network in networks.items() if network}


def wrong_routes(facts: Facts, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes without a route to another node's pods, with another gateway, or with a route to pods of no node."""
    networks = pod_networks(view)
    whole = ipaddress.ip_network(expected.pod_cidr)

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        wanted = {
            networks.get(other, f"the pod network of {other}"): _gateway(expected, networks.get(other, ""), other)
            for other in expected.nodes
            if other != name
        }
        # the route to the node's own pods has no gateway
        there = {to: gateway for to, gateway in seen.routes.items() if gateway and _within(to, whole)}
        for network, gateway in wanted.items():
            yield from differs(name, f"route to {network} via", gateway, there.get(network))
        foreign = sorted(set(there) - set(wanted))
        yield from differs(name, "routes to pod networks of no other node", [], foreign)

    return on_every(expected.nodes, facts, judge)


def _gateway(expected: ExpectedGuest, network: str, node: str) -> str:
    if expected.plugin.gateway is Gateway.NODE:
        return expected.addresses[node]
    return network.partition("/")[0]


def _within(destination: str, whole: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        network = ipaddress.ip_network(destination)
    except ValueError:  # "default"
        return False
    return network.version == whole.version and network.subnet_of(whole)  # type: ignore[arg-type]


@of_each("nodes")
def wrong_tunnels(name: str, seen: NodeFacts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes without the plugin's tunnel interface, or with another tunnel."""
    wanted = {expected.plugin.tunnel} if expected.plugin.tunnel is not None else set()
    tunnels = {link for link, kind in seen.links.items() if kind in TUNNELS}
    found = [] if LOOPBACK in seen.links else [Mismatch(name, "a list of its interfaces", repr(dict(seen.links)))]
    return found + same_set(name, f"tunnels ({', '.join(sorted(TUNNELS))})", wanted, tunnels)


@of_each("nodes")
def wrong_plugin_units(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return nodes where the plugin's unit does not run or is not enabled, or where another plugin's is installed."""
    for plugin in plugins().values():
        unit = seen.units.get(plugin.unit)
        where = f"{name} {plugin.unit}"
        if plugin is expected.plugin:
            states = (unit.active, unit.enabled) if unit is not None else ("absent",)
            yield from differs(where, "state", ("active", "enabled"), states)
        elif unit is None or unit.loaded != "not-found":
            yield Mismatch(where, "not to be installed", unit.loaded if unit is not None else "no answer")
