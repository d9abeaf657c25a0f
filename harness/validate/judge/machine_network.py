"""What machines themselves reach: pods on every node, Services, DNS by UDP and TCP, in packets of exactly the MTU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import of_family
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, on_every
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import NO_DIALS, SERVICE_PORT, UDP_PORT, Ask, Probes

API_SERVICE_PORT = 443
WAYS = ("udp", "tcp")


def unreached(probes: Probes, api_services: Sequence[str], expected: ExpectedGuest, ask: Ask) -> list[Mismatch]:
    """Return the pods and Services that a node itself does not reach by TCP.

    Args:
        api_services: the addresses of the Service default/kubernetes, which need not have one of each IP family.
    """
    places: dict[tuple[str, int], str] = {
        (pod.address, HTTP_PORT): f"pod on {node}" for node, pod in probes.dialled.items()
    }
    places[probes.service_address, SERVICE_PORT] = "Service of the probes"
    if api_service := of_family(api_services, expected.version):
        places[api_service, API_SERVICE_PORT] = "Service default/kubernetes"
    dialled = ask({name: {**NO_DIALS, "tcp": list(map(list, places))} for name in expected.nodes})

    def judge(name: str, answers: Sequence[Sequence[Any]]) -> list[Mismatch]:
        found = _too_few(name, answers, len(places))
        for _, host, port, why in answers:
            if why:
                found.append(Mismatch(f"{name} -> {places[host, port]} ({host}:{port})", "a connection", why))
        return found

    return on_every(expected.nodes, dialled, judge)


def cut_packets(probes: Probes, sizes: Mapping[str, int], expected: ExpectedGuest, ask: Ask) -> list[Mismatch]:
    """Return the pods that a datagram with DF of exactly the way's MTU does not reach, or whose answer gets lost.

    Args:
        sizes: of the packets, by node.
    """
    given = {}
    for name in expected.nodes:
        given[name] = {**NO_DIALS, "echo": [[pod.address, UDP_PORT, sizes[name]] for pod in probes.dialled.values()]}
    nodes = {pod.address: node for node, pod in probes.dialled.items()}

    def judge(name: str, answers: Sequence[Sequence[Any]]) -> list[Mismatch]:
        found = _too_few(name, answers, len(nodes))
        for _, host, _, size, why in answers:
            if why:
                where = f"{name} -> pod on {nodes[host]} ({host}:{UDP_PORT}/udp)"
                found.append(Mismatch(where, f"an answer to a packet of {size} bytes that may not be cut up", why))
        return found

    return on_every(expected.nodes, ask(given), judge)


def packet_size(facts: NodeFacts, expected: ExpectedGuest) -> int:
    """Return the largest packet that every part of the way between pods takes: the tunnels' MTU, else the links'.

    A pod has one link for all IP families, whose MTU is that of the tunnel with the smallest.
    """
    tunnels = [facts.mtus[tunnel] for tunnel in expected.tunnels if tunnel in facts.mtus]
    if tunnels:
        return min(tunnels)
    return min(
        facts.mtus[name] for name, kind in facts.links.items() if kind in ("", "veth", "bridge") and name != "lo"
    )


def unanswered(servers: Mapping[str, str], name: str, expected: ExpectedGuest, ask: Ask) -> list[Mismatch]:
    """Return the DNS servers that do not answer a node itself by UDP or by TCP.

    Args:
        servers: what they are, by address: the Service, and each pod behind it.
        name: one that the cluster's DNS knows.
    """
    asked = [[server, name, way] for server in servers for way in WAYS]
    dialled = ask({node: {**NO_DIALS, "dns": asked} for node in expected.nodes})

    def judge(node: str, answers: Sequence[Sequence[Any]]) -> list[Mismatch]:
        found = _too_few(node, answers, len(asked))
        for _, server, _, way, why in answers:
            if why:
                found.append(
                    Mismatch(f"{node} -> {servers[server]} ({server}:53/{way})", f"the address of {name}", why)
                )
        return found

    found = [] if len(servers) > 1 else [Mismatch("the cluster", "a DNS Service and pods behind it", str(servers))]
    return found + on_every(expected.nodes, dialled, judge)


def _too_few(name: str, answers: Sequence[Any], wanted: int) -> list[Mismatch]:
    return [] if len(answers) == wanted else [Mismatch(name, f"{wanted} answers", str(len(answers)))]
