"""Probe pods on every node of a guest: what they get when they dial.

A probe is agnhost's `netexec`: it answers over HTTP and UDP, and its /dial sends a request for the caller. The harness
reaches it through the API server's pod proxy, so nothing but the API has to be reachable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.resources import POD
from harness.validate.facts.cluster import of_family
from harness.validate.remote.objects import HTTP_PORT

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
    said = _decoded(answer.body)
    if answer.code != 200 or said is None:
        return DialResult((), (f"{answer.code}: {words_of(answer.body)}",))
    return DialResult(tuple(said.get("responses") or ()), tuple(said.get("errors") or ()))


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
