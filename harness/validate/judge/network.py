"""What must be true of a guest's network: what its probes must get when they dial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs
from harness.validate.remote.objects import HTTP_PORT
from harness.validate.remote.probe_pods import PROBE, SERVICE_PORT, UDP_PORT
from harness.validate.remote.probes import NAME, DialResult, Probes

Pair = tuple[str, str]
OfFamily = Callable[[Probes, ExpectedGuest], list[Mismatch]]  # of the probes and the guest as one IP family has them
PARALLEL_DIALS = 8
# Larger than any MTU on the way (1450 inside VXLAN on Ethernet), so that it arrives in several full segments.
LARGE_BYTES = 8000
# A backend that gets one connection in n is missed by all of 15 n with a probability below n * e^-15, about 1e-6.
TRIES_PER_BACKEND = 15
API_SERVICE_PORT = 443
KUBELET_PORT = 10250
UNASKED = "API server -> probe on"
TLS_ERROR = "HTTP request to an HTTPS server"  # of Go's HTTP server, over plain HTTP


def pairs(expected: ExpectedGuest) -> list[Pair]:
    """Return every ordered pair of nodes, including each node with itself: n * n of them."""
    return [(source, target) for source in expected.nodes for target in expected.nodes]


def of_each_family(probes: Probes, expected: ExpectedGuest, judge: OfFamily) -> list[Mismatch]:
    """Judge the addresses of each IP family that the cell has; the first address of all where nobody says."""
    if not expected.pod_cidr:
        return judge(probes, expected)
    return [one for family in expected.families for one in judge(probes.of_family(family.version), family)]


def dial_all(asked: list[Pair], dial: Callable[[str, str], DialResult]) -> dict[Pair, DialResult]:
    """Dial for every pair, several at a time."""
    with ThreadPoolExecutor(PARALLEL_DIALS) as pool:
        return dict(zip(asked, pool.map(lambda pair: dial(*pair), asked), strict=True))


def wrong_answers(
    asked: list[Pair], answers: Mapping[Pair, DialResult], wanted: Callable[[str], str], *, part: bool = False
) -> list[Mismatch]:
    """Return the pairs (source, target) that did not get the one answer `wanted(target)`, or were not dialled.

    Args:
        part: whether it is enough that the answer contains what is wanted.
    """
    found = [*differs("the check", "pairs dialled", len(asked), len(answers)), *unasked_probes(answers)]
    for source, target in asked:
        if (source, target) in answers and answers[source, target].unasked:
            continue
        answer = answers.get((source, target), DialResult((), ("was not dialled",)))
        text = wanted(target)
        good = len(answer.responses) == 1 and (text in answer.responses[0] if part else text == answer.responses[0])
        if not good or answer.errors:
            seen = "; ".join(_short(answer.errors, 200)) or repr(_short(answer.responses))
            found.append(Mismatch(f"{source} -> {target}", repr(_short((text,))), seen))
    return found


def unasked_probes(answers: Mapping[Pair, DialResult]) -> list[Mismatch]:
    """Return the probes that the API server does not reach, each once: what they would have got is not known."""
    why = {source: answer.unasked for (source, _), answer in answers.items() if answer.unasked}
    wanted = "an answer, without which nothing is known of what it reaches"
    return [Mismatch(f"{UNASKED} {source}", wanted, seen) for source, seen in sorted(why.items())]


def only_unasked(found: Iterable[Mismatch]) -> bool:
    """Tell whether nothing is wrong but that the API server does not reach probes, which was tried twice."""
    return all(one.where.startswith(UNASKED) for one in found)


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


def _short(texts: tuple[str, ...], limit: int = 80) -> tuple[str, ...]:
    return tuple(text if len(text) <= limit else f"{text[: limit // 4]}... ({len(text)} bytes)" for text in texts)
