"""Whether the files by which the container runtime gives networks to pods are the network plugin's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs, on_every, same_set
from harness.validate.judge.pod_network import LOOPBACK, pod_networks

FOLDER = "/etc/cni/net.d"
Facts = Mapping[str, NodeFacts]


def wrong_network_files(
    setups: Mapping[str, MachineSetup], facts: Facts, view: ClusterView, expected: ExpectedGuest
) -> list[Mismatch]:
    """Return nodes with several files of pod networks, other ones than the first node, another MTU, another subnet."""
    first = next((setups[name] for name in expected.nodes if name in setups), None)
    files, kinds = (sorted(first.cni), _kinds(first)) if first is not None else ([], [])
    routed = expected.plugin is not None and expected.plugin.gateway is not None
    networks = {one.version: pod_networks(view, one.version) for one in expected.families} if routed else {}

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        where = f"{name} {FOLDER}"
        yield from same_set(where, "files", files, seen.cni)
        yield from differs(where, "one file: the runtime reads only the first of", 1, len(seen.cni))
        yield from differs(where, f"plugins as on {expected.nodes[0]},", kinds, _kinds(seen))
        for file, content in seen.cni.items():
            if not isinstance(content, Mapping):
                yield Mismatch(f"{where}/{file}", "JSON", "something else")
                continue
            for plugin in _plugins(content):
                yield from _wrong_mtu(f"{where}/{file}", plugin, seen, facts.get(name), expected)
                own = [of_nodes[name] for of_nodes in networks.values() if name in of_nodes]
                wrong = [subnet for subnet in _subnets(plugin) if subnet not in own] if own else []
                yield from differs(f"{where}/{file}", f"subnets other than {', '.join(own)}", [], wrong)

    return on_every(expected.nodes, setups, judge)


def _wrong_mtu(
    where: str, plugin: Mapping[str, Any], seen: MachineSetup, facts: NodeFacts | None, expected: ExpectedGuest
) -> Iterator[Mismatch]:
    """Yield another MTU than that of the plugin's tunnel and of the bridge that pods are on.

    A bridge that no pod is on has the kernel's MTU: it follows that of its ports.
    """
    mtu, bridge, mtus = plugin.get("mtu"), plugin.get("bridge", ""), facts.mtus if facts is not None else {}
    if not mtu:
        return
    if seen.bridged.get(bridge) and mtus.get(bridge, mtu) != mtu:
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
    found: list[Mapping[str, Any]] = content.get("plugins", [content])
    return found


def _kinds(seen: MachineSetup) -> list[str]:
    """Return the types of all plugins in the files of a machine, in their order."""
    contents = [content for _, content in sorted(seen.cni.items()) if isinstance(content, Mapping)]
    return [str(plugin.get("type")) for content in contents for plugin in _plugins(content)]


def _subnets(value: Any) -> Iterator[str]:
    """Yield every `subnet` in a plugin's settings."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from [one] if key == "subnet" and isinstance(one, str) else _subnets(one)
    elif isinstance(value, list):
        for one in value:
            yield from _subnets(one)
