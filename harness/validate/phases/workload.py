"""A workload that a phase has to keep answering: two pods behind a Service, of which one may be evicted at a time.

Made before the first phase that needs it, and left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import ProductError
from harness.kube import Cluster
from harness.kube.resources import (
    DEPLOYMENT,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.cluster import Json
from harness.validate.phases.data import LIFE, ensure_namespace

WORKLOAD = "keeps-answering"
REPLICAS = 2
PORT = 8080
SHUTDOWN_SECONDS = 5  # a pod answers on after it was told to end, until every node's rules have forgotten it


def place(api: Cluster, image: str, nodes: Sequence[str], deadline: Deadline) -> str:
    """Make the workload, wait until both pods are ready, and return the address of their Service.

    On a single node there is no second one to move to: there nothing limits evictions, which would never be granted.

    Args:
        image: of agnhost, as the nodes pull it.

    Raises:
        ProductError: the pods do not become ready in time.
    """
    ensure_namespace(api)
    until(
        lambda: api.get(SERVICE_ACCOUNT, "default", LIFE) or NotYet("there is none"),
        deadline=deadline,
        what=f"namespace {LIFE} has its default ServiceAccount",
        interval=0.2,
    )
    service = api.ensure(SERVICE, _service())
    api.ensure(DEPLOYMENT, _deployment(image))
    if len(nodes) > 1:
        api.ensure(POD_DISRUPTION_BUDGET, _budget())
    try:
        until(
            lambda: _ready(api), deadline=deadline, what=f"{REPLICAS} pods of {LIFE}/{WORKLOAD} are ready", interval=0.3
        )
    except TimedOut as late:
        raise ProductError(
            f"a workload cannot be run before the phase: {late.summary}",
            hint=f"kubectl --kubeconfig kubeconfig -n {LIFE} describe pods",
            detail=_events(api),
        ) from late
    return str(service["spec"]["clusterIP"])


def _ready(api: Cluster) -> bool | NotYet:
    status = (api.get(DEPLOYMENT, WORKLOAD, LIFE) or {}).get("status", {})
    count = status.get("readyReplicas", 0)
    return True if count >= REPLICAS else NotYet(f"{count} are")


def _events(api: Cluster) -> str:
    pods = api.list(POD, LIFE).items
    return "\n".join(line for pod in pods for line in api.events_of(LIFE, pod["metadata"]["name"])[-5:])


def _metadata() -> Json:
    return {"name": WORKLOAD, "namespace": LIFE}


def _service() -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": PORT}]
    spec = {"selector": {"app": WORKLOAD}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": spec}


def _budget() -> Json:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": WORKLOAD}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(), "spec": spec}


def _deployment(image: str) -> Json:
    container: dict[str, Any] = {
        "name": "netexec",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["netexec", f"--http-port={PORT}", f"--delay-shutdown={SHUTDOWN_SECONDS}"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": WORKLOAD}}}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": SHUTDOWN_SECONDS * 2,
        # control planes too: where there is one worker, its pods have to go somewhere while it is drained
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
            }
        },
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": WORKLOAD}},
            "template": {"metadata": {"labels": {"app": WORKLOAD}}, "spec": pod},
        },
    }
