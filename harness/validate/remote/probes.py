"""Probe pods on every node of a guest: put there, asked to dial, and taken away again.

A probe is agnhost's `netexec`: it answers over HTTP and UDP, and its /dial makes the request that it is asked for. It
is asked through the API server's pod proxy, so nothing has to be reachable from the harness but the API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.resources import DAEMON_SET, NAMESPACE, POD, SERVICE, SERVICE_ACCOUNT
from harness.until import Deadline, NotYet, until

NAME = "vmatrix-probe"
PROBE = "probe"  # the pods that dial, and the Service's backends
PEER = "peer"  # the pods that are dialled directly
HTTP_PORT = 8080
UDP_PORT = 8081
SERVICE_PORT = 80
DIAL_SECONDS = 5  # agnhost gives up a request after that (test/images/agnhost/netexec/netexec.go)
PROXY_SECONDS = 10.0  # on top, for the way there and back


@dataclass(frozen=True)
class ProbePod:
    """One probe pod and where it runs."""

    name: str
    node: str
    address: str


@dataclass(frozen=True)
class DialResult:
    """What a probe got: the answers in order, and the errors (in words) of requests that got none."""

    responses: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Probes:
    """The probes of a guest: by node those that dial and those that are dialled, and the Service before the former."""

    api: Cluster
    dialling: Mapping[str, ProbePod]
    dialled: Mapping[str, ProbePod]
    service_address: str
    node_port: int

    def dial(
        self, node: str, host: str, port: int, request: str, *, protocol: str = "http", tries: int = 1
    ) -> DialResult:
        """Let the probe on `node` request `request` from host:port, `tries` times on a new connection each.

        A probe that the API server cannot reach is an answer too: it is the network that is being judged.
        """
        source = self.dialling[node].name
        seconds = PROXY_SECONDS + DIAL_SECONDS * tries
        try:
            answer = self.api.send(
                "GET",
                f"{POD.path(NAME, f'{source}:{HTTP_PORT}', 'proxy')}/dial",
                query={"host": host, "port": str(port), "protocol": protocol, "request": request, "tries": str(tries)},
                read_seconds=seconds,
            )
        except Unreachable:
            return DialResult((), (f"no answer in {seconds:.0f} s from the probe on {node} through the API server",))
        said = _decoded(answer.body)
        if answer.code != 200 or said is None:
            return DialResult((), (f"{answer.code}: {_words(answer.body)}",))
        return DialResult(tuple(said.get("responses") or ()), tuple(said.get("errors") or ()))


def place(api: Cluster, nodes: tuple[str, ...], image: str, deadline: Deadline) -> Probes:
    """Put two probe pods on every node and a Service before the first ones; wait until all are ready.

    Raises:
        TimedOut: with the pods that are not ready, and the events of one of them.
    """
    remove(api, deadline)  # what an earlier or interrupted run left
    _wait_for_namespace_gone(api, deadline)
    api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    service = api.create(SERVICE, _service())
    _wait_for_service_account(api, deadline)
    for role in (PROBE, PEER):
        api.create(DAEMON_SET, _daemon_set(role, image))
    pods = until(
        lambda: _ready_pods(api, nodes),
        deadline=deadline,
        what=f"two probe pods on each of {', '.join(nodes)} are ready",
        describe=lambda: _describe(api),
        interval=0.3,
    )
    return Probes(
        api=api,
        dialling=pods[PROBE],
        dialled=pods[PEER],
        service_address=service["spec"]["clusterIP"],
        node_port=int(service["spec"]["ports"][0]["nodePort"]),
    )


def remove(api: Cluster, deadline: Deadline) -> None:
    """Take the probes away, wait until the pods are gone, and ask for their namespace's deletion. Idempotent.

    Pods first: a namespace that still has pods when it is deleted waits for their grace period in steps of seconds.
    Nobody waits for the empty namespace here: its controller lets 5 s pass before it looks at it
    (pkg/controller/namespace, namespaceDeletionGracePeriod). `place` waits for it when it comes again.
    """
    if api.get(NAMESPACE, NAME) is None:
        return
    for role in (PROBE, PEER):
        api.delete(DAEMON_SET, role, NAME, propagation="Foreground")

    def pods_gone() -> bool | NotYet:
        left = [pod["metadata"]["name"] for pod in api.list(POD, NAME).items]
        return NotYet(f"still there: {', '.join(sorted(left))}") if left else True

    until(pods_gone, deadline=deadline, what="the probe pods are gone", interval=0.3)
    api.delete(NAMESPACE, NAME)


def _wait_for_namespace_gone(api: Cluster, deadline: Deadline) -> None:
    def probe() -> bool | NotYet:
        found = api.get(NAMESPACE, NAME)
        return True if found is None else NotYet(f"it is {found['status'].get('phase')}")

    until(probe, deadline=deadline, what=f"namespace {NAME} is gone", interval=0.3)


def _wait_for_service_account(api: Cluster, deadline: Deadline) -> None:
    """Wait for the default ServiceAccount: pods made before it are refused, and tried again only later."""
    until(
        lambda: api.get(SERVICE_ACCOUNT, "default", NAME) or NotYet("there is none"),
        deadline=deadline,
        what=f"namespace {NAME} has its default ServiceAccount",
        interval=0.1,
    )


def _ready_pods(api: Cluster, nodes: tuple[str, ...]) -> dict[str, dict[str, ProbePod]] | NotYet:
    pods: dict[str, dict[str, ProbePod]] = {PROBE: {}, PEER: {}}
    waiting: list[str] = []
    for pod in api.list(POD, NAME).items:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        if conditions.get("Ready") == "True":
            pods[pod["metadata"]["labels"]["app"]][node] = ProbePod(name, node, pod["status"]["podIP"])
        else:
            waiting.append(f"{name} on {node or 'no node'}")
    missing = [f"{role} on {node}" for role, there in pods.items() for node in nodes if node not in there]
    return NotYet(f"not ready: {', '.join(waiting or missing)}") if missing or waiting else pods


def _describe(api: Cluster) -> str:
    lines: list[str] = []
    for pod in api.list(POD, NAME).items:
        events = api.events_of(NAME, pod["metadata"]["name"])
        lines += [f"{pod['metadata']['name']} ({pod['status'].get('phase')}):", *(f"  {line}" for line in events[-5:])]
    return "\n".join(lines)


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": PROBE, "namespace": NAME},
        "spec": {
            "type": "NodePort",
            "selector": {"app": PROBE},
            "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": HTTP_PORT}],
        },
    }


def _daemon_set(role: str, image: str) -> dict[str, Any]:
    container = {
        "name": "netexec",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["netexec", f"--http-port={HTTP_PORT}", f"--udp-port={UDP_PORT}"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": HTTP_PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": role, "namespace": NAME},
        "spec": {
            "selector": {"matchLabels": {"app": role}},
            "template": {
                "metadata": {"labels": {"app": role}},
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 1,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                },
            },
        },
    }


def _words(body: Any) -> str:
    """Return what an error answer says: a Status object's message, or the text itself."""
    return str(body.get("message", body) if isinstance(body, dict) else body).strip()[:300]


def _decoded(body: Any) -> dict[str, Any] | None:
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return None
    return body if isinstance(body, dict) else None
