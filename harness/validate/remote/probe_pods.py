"""Creates the probe pods of a guest and their Service, and removes them."""

from __future__ import annotations

from typing import Any

from harness.kube import Cluster
from harness.kube.resources import DAEMON_SET, NAMESPACE, POD, SERVICE
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.facts.cluster import addresses_of
from harness.validate.remote.objects import (
    HTTP_PORT,
    INTERVAL,
    describe_pods,
    ensure_namespace,
    netexec,
    wait_for_service_account,
    wait_until_gone,
)
from harness.validate.remote.probes import NAME, ProbePod, Probes

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
