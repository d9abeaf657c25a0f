"""Probe pods on every node: placed, removed, and what they get when they dial.

A probe is agnhost's `netexec`: it answers over HTTP and UDP, and its /dial sends a request for the caller. The harness
reaches it through the API server's pod proxy, so nothing but the API has to be reachable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.resources import DAEMON_SET, NAMESPACE, POD, SERVICE
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import addresses_of, of_family
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import (
    HTTP_PORT,
    INTERVAL,
    describe_pods,
    ensure_namespace,
    netexec,
    wait_for_service_account,
    wait_until_gone,
)

NAME = "vmatrix-probe"
PROXY_ERRORS = (500, 502, 503, 504)  # of the API server; a probe itself answers 200 or 400
NO_ANSWER = "no answer of the API server's proxy"
THERE_SECONDS = 3.0  # for a probe that says no more than its name
DIAL_SECONDS = 5  # agnhost gives up a request after that (test/images/agnhost/netexec/netexec.go)


@dataclass(frozen=True)
class ProbePod:
    """One probe pod and where it runs; its address of each IP family that it has."""

    name: str
    node: str
    addresses: tuple[str, ...]

    @property
    def address(self) -> str:
        """Return its first address."""
        return self.addresses[0]


@dataclass(frozen=True)
class DialResult:
    """What a probe got: the answers in order, and the errors of requests that got none.

    unasked: why the probe was not asked at all: the API server does not reach it, which says nothing of what it dials.
    """

    responses: tuple[str, ...]
    errors: tuple[str, ...]
    unasked: str = ""


@dataclass(frozen=True)
class Probes:
    """The probes of a guest: by node those that dial and those that are dialled, and the Service of the former.

    service_addresses: of each IP family that it has.
    proxy_seconds: what the API server's proxy may take on top of the probe's own limit.
    silent: nodes whose probes it did not reach when they were last asked -> what was seen of that.
    """

    api: Cluster
    dialling: Mapping[str, ProbePod]
    dialled: Mapping[str, ProbePod]
    service_addresses: tuple[str, ...]
    node_port: int
    proxy_seconds: float
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def service_address(self) -> str:
        """Return the first address of the Service."""
        return self.service_addresses[0]

    def of_family(self, version: int) -> Probes:
        """Return the same probes with the addresses of one IP family (4 or 6) alone; "" for one that they lack."""

        def only(pods: Mapping[str, ProbePod]) -> dict[str, ProbePod]:
            return {node: replace(pod, addresses=(of_family(pod.addresses, version),)) for node, pod in pods.items()}

        services = (of_family(self.service_addresses, version),)
        return replace(self, dialling=only(self.dialling), dialled=only(self.dialled), service_addresses=services)

    def dial(
        self, node: str, host: str, port: int, request: str, *, protocol: str = "http", tries: int = 1
    ) -> DialResult:
        """Let the probe on `node` request `request` from host:port, `tries` times on a new connection each.

        A request that the API server's proxy does not answer is made once more: a busy host answers late. After that,
        the probe is only asked whether it is there, until it says so: else every check would wait for so long.
        """
        if node in self.silent and not self._speaks_again(node):
            return DialResult((), (), self.silent[node])
        once = partial(self._dial, node, host, port, request, protocol, tries)
        first = once()
        answer = once() if first.unasked else first
        if answer.unasked.startswith(NO_ANSWER):
            self.silent[node] = answer.unasked
        return answer

    def _speaks_again(self, node: str) -> bool:
        path = f"{POD.path(NAME, f'{self.dialling[node].name}:{HTTP_PORT}', 'proxy')}/hostname"
        try:
            self.api.send("GET", path, read_seconds=THERE_SECONDS)
        except Unreachable:
            return False
        self.silent.pop(node, None)
        return True

    def _dial(self, node: str, host: str, port: int, request: str, protocol: str, tries: int) -> DialResult:
        query = {"host": host, "port": str(port), "protocol": protocol, "request": request, "tries": str(tries)}
        return dial_from(self.api, NAME, self.dialling[node].name, query, self.proxy_seconds + DIAL_SECONDS * tries)


def dial_from(api: Cluster, namespace: str, pod: str, query: Mapping[str, str], seconds: float) -> DialResult:
    """Let a pod with agnhost's netexec dial, by the API server's proxy.

    query: as netexec's /dial has it: host, port, protocol, request, tries.  seconds: for all of it.
    """
    path = f"{POD.path(namespace, f'{pod}:{HTTP_PORT}', 'proxy')}/dial"
    try:
        answer = api.send("GET", path, query=dict(query), read_seconds=seconds)
    except Unreachable:
        return DialResult((), (), f"{NO_ANSWER} in {seconds:.0f} s")
    if answer.code in PROXY_ERRORS:
        return DialResult((), (), f"{answer.code}: {words_of(answer.body)}")
    reply = _decoded(answer.body)
    if answer.code != 200 or reply is None:
        return DialResult((), (f"{answer.code}: {words_of(answer.body)}",))
    return DialResult(tuple(reply.get("responses") or ()), tuple(reply.get("errors") or ()))


def words_of(body: Any) -> str:
    """Return the message of an error answer: that of a Status object, or the text itself."""
    return str(body.get("message", body) if isinstance(body, dict) else body).strip()[:300]


def _decoded(body: Any) -> dict[str, Any] | None:
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return None
    return body if isinstance(body, dict) else None


PROBE = "probe"  # the pods that dial, and the Service's backends
PEER = "peer"  # the pods that are dialled directly
UDP_PORT = 8081
SERVICE_PORT = 80


def place_probes(api: Cluster, nodes: tuple[str, ...], image: str, timeouts: Timeouts) -> Probes:
    """Create two probe pods on every node and a Service of the first ones; wait for all to be ready.

    Raises:
        TimedOut: with the pods that are not ready, and their last events.
    """
    deadline = Deadline.after(timeouts.probe_pods)
    remove_probes(api, deadline)  # of an earlier or interrupted run
    wait_until_gone(api, NAMESPACE, NAME, None, deadline)
    ensure_namespace(api, NAME)
    service = api.create(SERVICE, _service())
    wait_for_service_account(api, NAME, deadline)
    for role in (PROBE, PEER):
        api.create(DAEMON_SET, _daemon_set(role, image))
    pods = until(
        lambda: _ready_pods(api, nodes),
        deadline=deadline,
        what=f"two probe pods on each of {', '.join(nodes)} to be ready",
        describe=lambda: describe_pods(api, NAME),
        interval=INTERVAL,
    )
    return Probes(
        api=api,
        dialling=pods[PROBE],
        dialled=pods[PEER],
        service_addresses=tuple(service["spec"].get("clusterIPs") or [service["spec"]["clusterIP"]]),
        node_port=int(service["spec"]["ports"][0]["nodePort"]),
        proxy_seconds=timeouts.probe_proxy,
    )


def remove_probes(api: Cluster, deadline: Deadline) -> None:
    """Remove the probes, wait for the pods to be gone, and ask for their namespace's deletion. Idempotent.

    Pods first: a namespace that still has pods when it is deleted waits for their grace period in steps of seconds.
    This does not wait for the empty namespace: its controller lets 5 s pass before it looks at it
    (pkg/controller/namespace, namespaceDeletionGracePeriod).
    """
    if api.get(NAMESPACE, NAME) is None:
        return
    for role in (PROBE, PEER):
        api.delete(DAEMON_SET, role, NAME, propagation="Foreground")

    def pods_gone() -> bool | NotYet:
        left = [pod["metadata"]["name"] for pod in api.list(POD, NAME).items]
        return NotYet(f"left: {', '.join(sorted(left))}") if left else True

    until(pods_gone, deadline=deadline, what="the probe pods to be gone", interval=INTERVAL)
    api.delete(NAMESPACE, NAME)


def _ready_pods(api: Cluster, nodes: tuple[str, ...]) -> dict[str, dict[str, ProbePod]] | NotYet:
    pods: dict[str, dict[str, ProbePod]] = {PROBE: {}, PEER: {}}
    waiting: list[str] = []
    for pod in api.list(POD, NAME).items:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        if conditions.get("Ready") == "True":
            pods[pod["metadata"]["labels"]["app"]][node] = ProbePod(name, node, addresses_of(pod))
        else:
            waiting.append(f"{name} on {node or 'no node'}")
    missing = [f"{role} on {node}" for role, there in pods.items() for node in nodes if node not in there]
    return NotYet(f"not ready: {', '.join(waiting or missing)}") if missing or waiting else pods


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": PROBE, "namespace": NAME},
        "spec": {
            "type": "NodePort",
            "ipFamilyPolicy": "PreferDualStack",  # an address of each IP family that the cluster has
            "selector": {"app": PROBE},
            "ports": [
                {"name": "http", "port": SERVICE_PORT, "targetPort": HTTP_PORT},
                {"name": "udp", "port": SERVICE_PORT, "targetPort": UDP_PORT, "protocol": "UDP"},
            ],
        },
    }


def _daemon_set(role: str, image: str) -> dict[str, Any]:
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [netexec(image, f"--udp-port={UDP_PORT}")],
    }
    template = {"metadata": {"labels": {"app": role}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": role, "namespace": NAME},
        "spec": {"selector": {"matchLabels": {"app": role}}, "template": template},
    }


Pair = tuple[str, str]
OfFamily = Callable[[Probes, ExpectedGuest], list[Mismatch]]  # of the probes and the guest as one IP family has them
PARALLEL_DIALS = 8
# A backend that gets one connection in n is missed by all of 15 n with a probability below n * e^-15, about 1e-6.
TRIES_PER_BACKEND = 15
UNASKED = "API server -> probe on"


def pairs(expected: ExpectedGuest) -> list[Pair]:
    """Return every ordered pair of nodes, including each node with itself: n * n of them."""
    return [(source, target) for source in expected.nodes for target in expected.nodes]


def of_each_family(probes: Probes, expected: ExpectedGuest, judge: OfFamily) -> list[Mismatch]:
    """Judge the addresses of each IP family that the cell has; the first address of all where nobody says."""
    if not expected.pod_cidr:
        return judge(probes, expected)
    return [mismatch for family in expected.families for mismatch in judge(probes.of_family(family.version), family)]


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
    mismatches = [*differs("the check", "pairs dialled", len(asked), len(answers)), *unasked_probes(answers)]
    for source, target in asked:
        if (source, target) in answers and answers[source, target].unasked:
            continue
        answer = answers.get((source, target), DialResult((), ("was not dialled",)))
        text = wanted(target)
        good = len(answer.responses) == 1 and (text in answer.responses[0] if part else text == answer.responses[0])
        if not good or answer.errors:
            observed = "; ".join(_short(answer.errors, 200)) or repr(_short(answer.responses))
            mismatches.append(Mismatch(f"{source} -> {target}", repr(_short((text,))), observed))
    return mismatches


def unasked_probes(answers: Mapping[Pair, DialResult]) -> list[Mismatch]:
    """Return the probes that the API server does not reach, each once: what they would have got is not known."""
    why = {source: answer.unasked for (source, _), answer in answers.items() if answer.unasked}
    requirement = "an answer, without which nothing is known of what it reaches"
    return [Mismatch(f"{UNASKED} {source}", requirement, error) for source, error in sorted(why.items())]


def only_unasked(mismatches: Iterable[Mismatch]) -> bool:
    """Tell whether nothing is wrong but that the API server does not reach probes, which was tried twice."""
    return all(mismatch.where.startswith(UNASKED) for mismatch in mismatches)


def _short(texts: tuple[str, ...], limit: int = 80) -> tuple[str, ...]:
    return tuple(text if len(text) <= limit else f"{text[: limit // 4]}... ({len(text)} bytes)" for text in texts)


Dialled = Mapping[str, Sequence[Sequence[Any]]]  # by machine: [kind, what was given..., why it failed]
Ask = Callable[[Mapping[str, Any]], Dialled]  # lets every machine dial
NO_DIALS: Mapping[str, Any] = {"tcp": [], "echo": [], "dns": [], "seen": [], "code": [], "records": []}
