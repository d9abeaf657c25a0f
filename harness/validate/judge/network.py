"""What must be true of a guest's network: what its probes must get when they dial."""

from __future__ import annotations

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import (
    NAME,
    PROBE,
    SERVICE_PORT,
    TRIES_PER_BACKEND,
    UDP_PORT,
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
    found: list[Mismatch] = []

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, probes.dialled[target].address, HTTP_PORT, "clientip")

    answers = dial_all(pairs(expected), dial)
    for (source, target), answer in answers.items():
        own = probes.dialling[source].address
        seen = [text.rpartition(":")[0].strip("[]") for text in answer.responses]
        if not answer.unasked and (seen != [own] or answer.errors):
            said = "; ".join(_short(answer.errors, 200)) or ", ".join(seen) or "no answer"
            found.append(Mismatch(f"{source} -> {target}", f"the pod's own address {own} as source", said))
    return [*unasked_probes(answers), *found]


def closed_off(probes: Probes, expected: ExpectedGuest, outside: str) -> list[Mismatch]:
    """Return the nodes whose pods do not reach an HTTP server outside of the cluster.

    Args:
        outside: its host:port. The address in a pod's packets is translated on the way, or they have no way back.
    """
    host, _, port = outside.rpartition(":")
    asked = [(node, outside) for node in expected.nodes]
    answers = dial_all(asked, lambda node, _: probes.dial(node, host.strip("[]"), int(port), "v2/"))
    found = unasked_probes(answers)
    for (node, to), answer in answers.items():
        if not answer.unasked and (answer.errors or len(answer.responses) != 1):
            said = "; ".join(_short(answer.errors, 200)) or repr(answer.responses)
            found.append(Mismatch(f"{node} -> {to}", "an answer to a pod", said))
    return found


def unserved(probes: Probes, expected: ExpectedGuest, host: str, *, protocol: str = "http") -> list[Mismatch]:
    """Return the nodes whose pods do not reach every backend of the Service by its address or name."""
    backends = sorted(pod.name for pod in probes.dialling.values())
    tries = TRIES_PER_BACKEND * len(backends)
    asked = [(node, host) for node in expected.nodes]

    def dial(node: str, to: str) -> DialResult:
        first = probes.dial(node, to, SERVICE_PORT, "hostname", protocol=protocol)
        # each further try at a Service that does not answer would cost seconds
        if not first.responses:
            return first
        return probes.dial(node, to, SERVICE_PORT, "hostname", protocol=protocol, tries=tries)

    answers = dial_all(asked, dial)
    found = [*differs("the check", "backends", len(expected.nodes), len(backends)), *unasked_probes(answers)]
    for (node, to), answer in answers.items():
        if answer.unasked:
            continue
        where = f"{node} -> {to}:{SERVICE_PORT}{'/udp' if protocol == 'udp' else ''}"
        found += differs(where, f"answers to {tries} requests from", backends, sorted(set(answer.responses)))
        found += differs(where, "errors", [], sorted(set(answer.errors)))
    return found


def closed_kubelets(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ordered pairs of nodes where a pod of the first does not reach the second's kubelet.

    Kubernetes' network model: pods reach agents on nodes. Kubelet speaks TLS and refuses the probe's plain HTTP.
    """

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, expected.addresses[target], KUBELET_PORT, "healthz")

    answers = dial_all(pairs(expected), dial)
    found = unasked_probes(answers)
    for (source, target), answer in answers.items():
        said = [*answer.responses, *answer.errors]
        if not answer.unasked and not any(TLS_ERROR in text or "HTTPS" in text for text in said):
            where = f"{source} -> {expected.addresses[target]}:{KUBELET_PORT} ({target})"
            found.append(Mismatch(where, "an answer of kubelet", "; ".join(_short(tuple(said), 200)) or "none"))
    return found


def closed_node_ports(probes: Probes, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ordered pairs of nodes where a pod of the first does not reach the second's NodePort."""
    backends = {pod.name for pod in probes.dialling.values()}

    def dial(source: str, target: str) -> DialResult:
        return probes.dial(source, expected.addresses[target], probes.node_port, "hostname")

    asked = pairs(expected)
    answers = dial_all(asked, dial)
    found = unasked_probes(answers)
    for (source, target), answer in answers.items():
        if answer.unasked:
            continue
        if len(answer.responses) != 1 or answer.responses[0] not in backends:
            seen = "; ".join(answer.errors) or repr(answer.responses)
            where = f"{source} -> {expected.addresses[target]}:{probes.node_port} ({target})"
            found.append(Mismatch(where, f"one of {sorted(backends)}", seen))
    return found


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
