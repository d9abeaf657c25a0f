"""Pod network: routes, tunnels and units of the network plugin on every node, and its CNI files.

Whether packets arrive is judged in connectivity.py.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from harness.validate.expected import ExpectedGuest, Gateway, plugins
from harness.validate.facts.cluster import ClusterView, of_family, pod_networks_of
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs, on_every, same_set, together, unjudged

Facts = Mapping[str, NodeFacts]
TUNNELS = frozenset({"vxlan", "geneve", "wireguard"})  # kinds of interfaces that wrap packets, as ip names them
LOOPBACK = "lo"
IPV6_BYTES = 20  # that its header is longer than that of IPv4 (RFC 8200)
VXLAN_BYTES = 50  # that a VXLAN packet over IPv4 is larger than what is in it (RFC 7348: 14 + 20 + 8 + 8)


def gateway_words(expected: ExpectedGuest) -> str:
    """Return what routes to other nodes' pods lead through, as a claim puts it."""
    gateway = expected.plugin.gateway if expected.plugin is not None else None
    return gateway.words if gateway is not None else "any gateway"


def tunnel(expected: ExpectedGuest) -> str:
    """Return the network plugin's tunnel, as a claim puts it."""
    return (expected.plugin.tunnel if expected.plugin is not None else None) or "none"


def unit(expected: ExpectedGuest) -> str:
    """Return the network plugin's unit, as a claim puts it."""
    return (expected.plugin.unit if expected.plugin is not None else None) or "the network plugin's unit"


def pod_networks(view: ClusterView, version: int) -> dict[str, str]:
    """Return the pod network (CIDR) of an IP family of every node that has one."""
    networks = {node["metadata"]["name"]: of_family(pod_networks_of(node), version) for node in view.nodes}
    return {name: network for name, network in networks.items() if network}


def wrong_routes(facts: Facts, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes without a route to another node's pods, with another gateway, or with a route to pods of no node."""
    return together(*(_wrong_routes(facts, view, family) for family in expected.families))


def _wrong_routes(facts: Facts, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    plugin = expected.plugin
    if plugin is None or plugin.gateway is None or not expected.pod_cidr:
        why = "the cell's variables have no cluster_pod_cidr" if plugin is not None else ""
        return [unjudged("routes to other nodes' pods", why or _undescribed(expected), whole=True)]
    gateway_of, networks = plugin.gateway, pod_networks(view, expected.version)
    whole = ipaddress.ip_network(expected.pod_cidr)

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        gateways = {
            networks.get(other, f"the pod network of {other}"): _gateway(
                expected, gateway_of, networks.get(other, ""), other
            )
            for other in expected.nodes
            if other != name
        }
        # the route to the node's own pods has no gateway
        there = {to: gateway for to, gateway in node.routes.items() if gateway and _within(to, whole)}
        for network, gateway in gateways.items():
            yield from differs(name, f"route to {network} via", gateway, there.get(network))
        foreign = sorted(set(there) - set(gateways))
        yield from differs(name, "routes to pod networks of no other node", [], foreign)

    return on_every(expected.nodes, facts, judge)


def _undescribed(expected: ExpectedGuest) -> str:
    return f"neither product.yml nor network_plugins.yml describes the network plugin {expected.network_plugin!r}"


def _gateway(expected: ExpectedGuest, gateway: Gateway, network: str, node: str) -> str:
    if gateway is Gateway.NODE:
        return expected.addresses[node]
    return network.partition("/")[0]


def _within(destination: str, whole: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        network = ipaddress.ip_network(destination)
    except ValueError:  # "default"
        return False
    return network.version == whole.version and network.subnet_of(whole)  # type: ignore[arg-type]


def wrong_tunnels(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes without the plugin's tunnel interface, or with another tunnel."""
    plugin = expected.plugin
    if plugin is None:
        return [unjudged("tunnels", _undescribed(expected), whole=True)]
    expected_tunnels = set(expected.tunnels)

    def judge(name: str, node: NodeFacts) -> list[Mismatch]:
        tunnels = {link for link, kind in node.links.items() if kind in TUNNELS}
        mismatches = (
            [] if LOOPBACK in node.links else [Mismatch(name, "a list of its interfaces", repr(dict(node.links)))]
        )
        mismatches += same_set(name, f"tunnels ({', '.join(sorted(TUNNELS))})", expected_tunnels, tunnels)
        return mismatches + _too_large(name, node, plugin.ipv6_tunnel)

    return on_every(expected.nodes, facts, judge)


def _too_large(name: str, node: NodeFacts, ipv6_tunnel: str | None) -> list[Mismatch]:
    """Return VXLAN tunnels whose packets do not fit into the link that they leave by, and bridges above the tunnel."""
    mismatches: list[Mismatch] = []
    for tunnel in (link for link, kind in node.links.items() if kind == "vxlan"):
        carrier, mtu = node.carriers.get(tunnel, ""), node.mtus.get(tunnel, 0)
        header = VXLAN_BYTES + (IPV6_BYTES if tunnel == ipv6_tunnel else 0)
        most = node.mtus.get(carrier, mtu + header) - header
        if mtu > most:
            mismatches.append(Mismatch(f"{name} {tunnel}", f"an MTU of at most {most}, for {carrier}", str(mtu)))
    return mismatches


def wrong_plugin_units(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes where the plugin's unit does not run or is not enabled, or where another plugin's is installed."""
    own = expected.plugin.unit if expected.plugin is not None else None
    # where nobody describes the cell's plugin, one of that name is not another plugin
    undescribed = expected.network_plugin if expected.plugin is None else ""
    named = {name: plugin.unit for name, plugin in plugins().items() if name != undescribed}
    others = {unit for unit in named.values() if unit is not None} - {own}

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        if own is not None:
            unit = node.units.get(own)
            states = (unit.active, unit.enabled) if unit is not None else ("absent",)
            yield from differs(f"{name} {own}", "state", ("active", "enabled"), states)
        for other in sorted(others):
            unit = node.units.get(other)
            if unit is None or unit.loaded != "not-found":
                yield Mismatch(
                    f"{name} {other}", "not to be installed", unit.loaded if unit is not None else "no answer"
                )

    mismatches = on_every(expected.nodes, facts, judge)
    return (
        mismatches
        if expected.plugin is not None
        else [*mismatches, unjudged("the network plugin's unit", _undescribed(expected))]
    )


FOLDER = "/etc/cni/net.d"


def wrong_network_files(
    setups: Mapping[str, MachineSetup], facts: Facts, view: ClusterView, expected: ExpectedGuest
) -> list[Mismatch]:
    """Return nodes with several files of pod networks, other ones than the first node, another MTU, another subnet."""
    first = next((setups[name] for name in expected.nodes if name in setups), None)
    files, kinds = (sorted(first.cni), _kinds(first)) if first is not None else ([], [])
    routed = expected.plugin is not None and expected.plugin.gateway is not None
    networks = {family.version: pod_networks(view, family.version) for family in expected.families} if routed else {}

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        where = f"{name} {FOLDER}"
        yield from same_set(where, "files", files, setup.cni)
        yield from differs(where, "one file: the runtime reads only the first of", 1, len(setup.cni))
        yield from differs(where, f"plugins as on {expected.nodes[0]},", kinds, _kinds(setup))
        for file, content in setup.cni.items():
            if not isinstance(content, Mapping):
                yield Mismatch(f"{where}/{file}", "JSON", "something else")
                continue
            for plugin in _plugins(content):
                yield from _wrong_mtu(f"{where}/{file}", plugin, setup, facts.get(name), expected)
                own = [of_nodes[name] for of_nodes in networks.values() if name in of_nodes]
                wrong = [subnet for subnet in _subnets(plugin) if subnet not in own] if own else []
                yield from differs(f"{where}/{file}", f"subnets other than {', '.join(own)}", [], wrong)

    return on_every(expected.nodes, setups, judge)


def _wrong_mtu(
    where: str, plugin: Mapping[str, Any], setup: MachineSetup, facts: NodeFacts | None, expected: ExpectedGuest
) -> Iterator[Mismatch]:
    """Yield another MTU than that of the plugin's tunnel and of the bridge that pods are on.

    A bridge that no pod is on has the kernel's MTU: it follows that of its ports.
    """
    mtu, bridge, mtus = plugin.get("mtu"), plugin.get("bridge", ""), facts.mtus if facts is not None else {}
    if not mtu:
        return
    if setup.bridged.get(bridge) and mtus.get(bridge, mtu) != mtu:
        yield Mismatch(where, f"mtu {mtus[bridge]}, as {bridge} has it", str(mtu))
    if expected.plugin is None or not mtus:
        return
    tunnels = {mtus[tunnel]: tunnel for tunnel in expected.tunnels if tunnel in mtus}  # pods have one link for all
    if tunnels and mtu != min(tunnels):
        yield Mismatch(where, f"mtu {min(tunnels)}, as {tunnels[min(tunnels)]} has it", str(mtu))
    links = {link: size for link, size in mtus.items() if link not in (bridge, LOOPBACK)}
    if not expected.tunnels and mtu > max(links.values(), default=mtu):
        yield Mismatch(where, f"mtu {max(links.values())} at most, as of the machine's links", str(mtu))


def _plugins(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    plugins_of_file: list[Mapping[str, Any]] = content.get("plugins", [content])
    return plugins_of_file


def _kinds(setup: MachineSetup) -> list[str]:
    """Return the types of all plugins in the files of a machine, in their order."""
    contents = [content for _, content in sorted(setup.cni.items()) if isinstance(content, Mapping)]
    return [str(plugin.get("type")) for content in contents for plugin in _plugins(content)]


def _subnets(value: Any) -> Iterator[str]:
    """Yield every `subnet` in a plugin's settings."""
    if isinstance(value, Mapping):
        for key, setting in value.items():
            yield from [setting] if key == "subnet" and isinstance(setting, str) else _subnets(setting)
    elif isinstance(value, list):
        for setting in value:
            yield from _subnets(setting)
