"""Connectivity: what pods and nodes reach: pods, Services, NodePorts, DNS, the API and servers outside, and the MTU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from harness.model import Mirror
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import of_family
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, differs, on_every
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import (
    NAME,
    NO_DIALS,
    PROBE,
    SERVICE_PORT,
    TRIES_PER_BACKEND,
    UDP_PORT,
    Ask,
    DialResult,
    Probes,
    _short,
    dial_all,
    pairs,
    unasked_probes,
    wrong_answers,
)

# Larger than any MTU on the way (1450 inside VXLAN on Ethernet), so that it arrives in several full segments.
LARGE_BYTES = 8000
API_SERVICE_PORT = 443
KUBELET_PORT = 10250
TLS_ERROR = "HTTP request to an HTTPS server"  # of Go's HTTP server, over plain HTTP


def unreachable_pods(probes: Probes, expected: ExpectedGuest, *, protocol: str) -> list[Mismatch]:
    """Return the ordered pairs of nodes whose pods do not reach each other by "http" or "udp"."""
    port = UDP_PORT if protocol == "udp" else HTTP_PORT

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, probes.dialled[target].address, port, "hostname", protocol=protocol)

    asked = pairs(expected)
    return wrong_answers(asked, dial_all(asked, dial), lambda target: probes.dialled[target].name)


def lost_large_answers(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ordered pairs of nodes between which large requests and answers are lost (a wrong MTU, mostly)."""
    text = "x" * LARGE_BYTES

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, probes.dialled[target].address, HTTP_PORT, f"echo?msg={text}")

    asked = pairs(expected)
    return wrong_answers(asked, dial_all(asked, dial), lambda _: text)


def changed_sources(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ordered pairs of nodes whose pods are not seen under their own address by each other.

    Kubernetes' network model: pods communicate with all other pods without address translation.
    """
    mismatches: list[Mismatch] = []

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, probes.dialled[target].address, HTTP_PORT, "clientip")

    answers = dial_all(pairs(expected), dial)
    for (source, target), answer in answers.items():
        own = probes.dialling[source].address
        sources = [text.rpartition(":")[0].strip("[]") for text in answer.responses]
        if not answer.unasked and (sources != [own] or answer.errors):
            observed = "; ".join(_short(answer.errors, 200)) or ", ".join(sources) or "no answer"
            mismatches.append(Mismatch(f"{source} -> {target}", f"the pod's own address {own} as source", observed))
    return [*unasked_probes(answers), *mismatches]


def closed_off(probes: Probes, expected: ExpectedGuest, outside: str) -> list[Mismatch]:
    """Return the nodes whose pods do not reach an HTTP server outside of the cluster.

    Args:
        outside: its host:port. The address in a pod's packets is translated on the way, or they have no way back.
    """
    host, _, port = outside.rpartition(":")
    asked = [(node, outside) for node in expected.nodes]
    answers = dial_all(asked, lambda node, _: probes.dial(node, host.strip("[]"), int(port), "v2/"))
    mismatches = unasked_probes(answers)
    for (node, to), answer in answers.items():
        if not answer.unasked and (answer.errors or len(answer.responses) != 1):
            message = "; ".join(_short(answer.errors, 200)) or repr(answer.responses)
            mismatches.append(Mismatch(f"{node} -> {to}", "an answer to a pod", message))
    return mismatches


def unserved(probes: Probes, expected: ExpectedGuest, host: str, *, protocol: str = "http") -> list[Mismatch]:
    """Return the nodes whose pods do not reach every backend of the Service by its address or name."""
    backends = sorted(pod.name for pod in probes.dialling.values())
    tries = TRIES_PER_BACKEND * len(backends)
    asked = [(node, host) for node in expected.nodes]

    def dial(node: str, to: str) -> DialResult:
        return in_batches(
            tries, lambda some: probes.dial(node, to, SERVICE_PORT, "hostname", protocol=protocol, tries=some)
        )

    answers = dial_all(asked, dial)
    mismatches = [*differs("the check", "backends", len(expected.nodes), len(backends)), *unasked_probes(answers)]
    for (node, to), answer in answers.items():
        if answer.unasked:
            continue
        where = f"{node} -> {to}:{SERVICE_PORT}{'/udp' if protocol == 'udp' else ''}"
        if answer.errors:  # not all tries were made
            message = f"{'; '.join(sorted(set(answer.errors)))} (and {len(answer.responses)} answers before it)"
            mismatches.append(Mismatch(where, f"an answer to each of {tries} requests", message))
        else:
            mismatches += differs(where, f"answers to {tries} requests from", backends, sorted(set(answer.responses)))
    return mismatches


def in_batches(tries: int, dial: Callable[[int], DialResult]) -> DialResult:
    """Dial so often, each time twice as often as before, until a try gets no answer: each of those costs seconds."""
    responses: list[str] = []
    some = 1
    while len(responses) < tries:
        batch = dial(min(some, tries - len(responses)))
        responses += batch.responses
        if batch.unasked or batch.errors or not batch.responses:
            return replace(batch, responses=tuple(responses))
        some *= 2
    return DialResult(tuple(responses), ())


def closed_kubelets(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ordered pairs of nodes where a pod of the first does not reach the second's kubelet.

    Kubernetes' network model: pods reach agents on nodes. Kubelet speaks TLS and refuses the probe's plain HTTP.
    """

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, expected.addresses[target], KUBELET_PORT, "healthz")

    answers = dial_all(pairs(expected), dial)
    mismatches = unasked_probes(answers)
    for (source, target), answer in answers.items():
        messages = [*answer.responses, *answer.errors]
        if not answer.unasked and not any(TLS_ERROR in text or "HTTPS" in text for text in messages):
            where = f"{source} -> {expected.addresses[target]}:{KUBELET_PORT} ({target})"
            mismatches.append(
                Mismatch(where, "an answer of kubelet", "; ".join(_short(tuple(messages), 200)) or "none")
            )
    return mismatches


def closed_node_ports(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ordered pairs of nodes where a pod of the first does not reach the second's NodePort."""
    backends = {pod.name for pod in probes.dialling.values()}

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, expected.addresses[target], probes.node_port, "hostname")

    asked = pairs(expected)
    answers = dial_all(asked, dial)
    mismatches = unasked_probes(answers)
    for (source, target), answer in answers.items():
        if answer.unasked:
            continue
        if len(answer.responses) != 1 or answer.responses[0] not in backends:
            message = "; ".join(answer.errors) or repr(answer.responses)
            where = f"{source} -> {expected.addresses[target]}:{probes.node_port} ({target})"
            mismatches.append(Mismatch(where, f"one of {sorted(backends)}", message))
    return mismatches


def service_name(expected: ExpectedGuest) -> str:
    """Return the full DNS name of the probes' Service."""
    return f"{PROBE}.{NAME}.svc.{expected.dns_domain}"


def api_unreachable(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the nodes whose pods do not reach the API server by its Service's name, short and full.

    They send plain HTTP to a TLS port: the error of Go's server proves that name, Service and route work.
    """
    names = ("kubernetes.default", f"kubernetes.default.svc.{expected.dns_domain}")
    asked = [(node, name) for node in expected.nodes for name in names]
    answers = dial_all(asked, lambda node, name: probes.dial(node, name, API_SERVICE_PORT, "version"))
    return wrong_answers(asked, answers, lambda _: TLS_ERROR, part=True)


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
        mismatches = _too_few(name, answers, len(places))
        for _, host, port, why in answers:
            if why:
                mismatches.append(Mismatch(f"{name} -> {places[host, port]} ({host}:{port})", "a connection", why))
        return mismatches

    return on_every(expected.nodes, dialled, judge)


def cut_packets(probes: Probes, sizes: Mapping[str, int], expected: ExpectedGuest, ask: Ask) -> list[Mismatch]:
    """Return the pods that a datagram with DF of exactly the way's MTU does not reach, or whose answer gets lost.

    Args:
        sizes: of the packets, by node.
    """
    dials = {}
    for name in expected.nodes:
        dials[name] = {**NO_DIALS, "echo": [[pod.address, UDP_PORT, sizes[name]] for pod in probes.dialled.values()]}
    nodes = {pod.address: node for node, pod in probes.dialled.items()}

    def judge(name: str, answers: Sequence[Sequence[Any]]) -> list[Mismatch]:
        mismatches = _too_few(name, answers, len(nodes))
        for _, host, _, size, why in answers:
            if why:
                where = f"{name} -> pod on {nodes[host]} ({host}:{UDP_PORT}/udp)"
                mismatches.append(Mismatch(where, f"an answer to a packet of {size} bytes that may not be cut up", why))
        return mismatches

    return on_every(expected.nodes, ask(dials), judge)


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
        mismatches = _too_few(node, answers, len(asked))
        for _, server, _, way, why in answers:
            if why:
                mismatches.append(
                    Mismatch(f"{node} -> {servers[server]} ({server}:53/{way})", f"the address of {name}", why)
                )
        return mismatches

    mismatches = [] if len(servers) > 1 else [Mismatch("the cluster", "a DNS Service and pods behind it", str(servers))]
    return mismatches + on_every(expected.nodes, dialled, judge)


def _too_few(name: str, answers: Sequence[Any], count: int) -> list[Mismatch]:
    return [] if len(answers) == count else [Mismatch(name, f"{count} answers", str(len(answers)))]


PATH = "client"  # of vmatrix's mirror: it answers with the address that it sees
HTTP = 80


def seen_of_nodes(mirror: Mirror, expected: ExpectedGuest, ask: Ask) -> dict[str, str]:
    """Return the address that the mirror sees of each node itself: the way there may translate every address.

    "" where it does not tell, as mirrors do that are not vmatrix's own.
    """
    host, port = _place(mirror)
    dialled = ask({name: {**NO_DIALS, "seen": [[host, port, PATH]]} for name in expected.nodes})
    return {name: _address(answers[0][-1]) if answers else "" for name, answers in dialled.items()}


def changed_outside(probes: Probes, mirror: Mirror, own: Mapping[str, str], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the nodes whose pods the mirror sees under another address than the node itself.

    Args:
        own: that of each node.
    """
    host, port = _place(mirror)
    asked = [(name, mirror.http) for name in expected.nodes]
    answers = dial_all(asked, lambda name, _: probes.dial(name, host, port, PATH))
    mismatches = unasked_probes(answers)
    for (name, to), answer in answers.items():
        sources = [_address(text) for text in answer.responses]
        allowed = {own.get(name, "")}
        if expected.plugin is None:  # a network plugin that nobody describes may route pods' addresses outside
            allowed.add(probes.dialling[name].address)
        if not answer.unasked and not (len(sources) == 1 and sources[0] and sources[0] in allowed):
            observed = ", ".join(filter(None, sources)) or "; ".join(answer.errors) or "no answer"
            source = own.get(name) or "the address of its node"
            mismatches.append(Mismatch(f"a pod on {name} -> {to}", f"{source} as source", observed))
    return mismatches


def _place(mirror: Mirror) -> tuple[str, int]:
    at = urlsplit(mirror.http)
    return at.hostname or "", at.port or HTTP


def _address(text: str) -> str:
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return ""
