"""A workload that must keep answering during a phase: two pods behind a Service; one may be evicted at a time.

It is created before the first phase that needs it, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ProductError
from harness.kube import Cluster
from harness.kube.resources import (
    DEPLOYMENT,
    POD_DISRUPTION_BUDGET,
    SERVICE,
)
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.cluster import Json
from harness.validate.phases.data import LIFE
from harness.validate.pods import (
    HTTP_PORT,
    INTERVAL,
    describe_pods,
    ensure_namespace,
    netexec,
    wait_for_service_account,
)

WORKLOAD = "keeps-answering"
REPLICAS = 2
# A pod keeps answering after it was told to end, until every node's rules have dropped it. Policy: a workload as users
# write it; outages are judged by workload_outage.
SHUTDOWN_SECONDS = 5
READY_SECONDS = 5  # the kubelet's limit for one readiness probe; a busy node's pods stay in the Service


def place_workload(api: Cluster, image: str, nodes: Sequence[str], deadline: Deadline) -> str:
    """Create the workload, wait until both pods are ready, and return the address of their Service.

    On a single node there is no PodDisruptionBudget: pods have no other node to go to, so no eviction would be granted.

    Args:
        image: of agnhost, as the nodes pull it.

    Raises:
        ProductError: the pods do not become ready in time.
    """
    ensure_namespace(api, LIFE)
    wait_for_service_account(api, LIFE, deadline)
    service = api.ensure(SERVICE, _service())
    api.ensure(DEPLOYMENT, _deployment(image))
    if len(nodes) > 1:
        api.ensure(POD_DISRUPTION_BUDGET, _budget())
    try:
        what = f"{REPLICAS} pods of {LIFE}/{WORKLOAD} to be ready"
        until(lambda: _ready(api), deadline=deadline, what=what, interval=INTERVAL)
    except TimedOut as late:
        raise ProductError(
            f"the workload does not start before the phase: {late.summary}",
            hint=f"kubectl --kubeconfig kubeconfig -n {LIFE} describe pods",
            detail=describe_pods(api, LIFE),
        ) from late
    return str(service["spec"]["clusterIP"])


def _ready(api: Cluster) -> bool | NotYet:
    status = (api.get(DEPLOYMENT, WORKLOAD, LIFE) or {}).get("status", {})
    count = status.get("readyReplicas", 0)
    return True if count >= REPLICAS else NotYet(f"{count} ready")


def _metadata() -> Json:
    return {"name": WORKLOAD, "namespace": LIFE}


def _service() -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": HTTP_PORT}]
    spec = {"selector": {"app": WORKLOAD}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": spec}


def _budget() -> Json:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": WORKLOAD}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(), "spec": spec}


def _deployment(image: str) -> Json:
    others = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": WORKLOAD}}}
    spread = {"weight": 100, "podAffinityTerm": others}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": SHUTDOWN_SECONDS * 2,
        # control planes too: with one worker, its pods have to go somewhere while it is drained
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}},
        "containers": [netexec(image, f"--delay-shutdown={SHUTDOWN_SECONDS}", timeoutSeconds=READY_SECONDS)],
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
