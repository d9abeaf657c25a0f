"""Probe pods on every node of a guest: what they get when they dial.

A probe is agnhost's `netexec`: it answers over HTTP and UDP, and its /dial sends a request for the caller. The harness
reaches it through the API server's pod proxy, so nothing but the API has to be reachable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.resources import POD
from harness.validate.remote.objects import HTTP_PORT

NAME = "vmatrix-probe"
DIAL_SECONDS = 5  # agnhost gives up a request after that (test/images/agnhost/netexec/netexec.go)


@dataclass(frozen=True)
class ProbePod:
    """One probe pod and where it runs."""

    name: str
    node: str
    address: str


@dataclass(frozen=True)
class DialResult:
    """What a probe got: the answers in order, and the errors of requests that got none."""

    responses: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Probes:
    """The probes of a guest: by node those that dial and those that are dialled, and the Service of the former.

    proxy_seconds: what the API server's proxy may take on top of the probe's own limit.
    """

    api: Cluster
    dialling: Mapping[str, ProbePod]
    dialled: Mapping[str, ProbePod]
    service_address: str
    node_port: int
    proxy_seconds: float

    def dial(
        self, node: str, host: str, port: int, request: str, *, protocol: str = "http", tries: int = 1
    ) -> DialResult:
        """Let the probe on `node` request `request` from host:port, `tries` times on a new connection each.

        A probe that the API server cannot reach is an error too: the network is what is being judged.
        """
        source = self.dialling[node].name
        seconds = self.proxy_seconds + DIAL_SECONDS * tries
        try:
            answer = self.api.send(
                "GET",
                f"{POD.path(NAME, f'{source}:{HTTP_PORT}', 'proxy')}/dial",
                query={"host": host, "port": str(port), "protocol": protocol, "request": request, "tries": str(tries)},
                read_seconds=seconds,
            )
        except Unreachable:
            return DialResult((), (f"the probe on {node} did not answer the API server's proxy in {seconds:.0f} s",))
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
