"""Join the machine that runs pods to the infra cluster: make it, approve its kubelet's certificate. Idempotent.

The serving certificate is for the machine's address, which is not known before it boots. Ordinary pods and machines
have nodes of their own.
"""

from __future__ import annotations

import base64
from http import HTTPStatus

from cryptography import x509
from cryptography.x509.oid import NameOID

from harness.embedded.node.placement import MACHINES_ONLY
from harness.errors import InfraError
from harness.infra.pods import manifests
from harness.infra.pods.machine import NAME, NAMESPACE_NAME, PodsMachine
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, is_condition
from harness.kube.resources import CSR, DATA_VOLUME, NAMESPACE, NODE, POD, SECRET, VM, VMI
from harness.until import Deadline, NotYet, until

SERVING = "kubernetes.io/kubelet-serving"


def approve_requests(cluster: Cluster, node: str) -> None:
    """Approve what a node asks for."""
    for request in cluster.list(CSR).items:
        if asks_for_serving(request, node):
            approve(cluster, request)


def serves(cluster: Cluster, node: str) -> bool:
    """Tell whether the API reaches a node's kubelet: before that, nobody sees a pod's log or enters a pod."""
    return cluster.send("GET", f"/api/v1/nodes/{node}/proxy/healthz").code == HTTPStatus.OK


def asks_for_serving(request: Json, node: str) -> bool:
    """Tell whether a request that nobody has answered is for the serving certificate of a node, and made by it."""
    spec, name = request["spec"], f"system:node:{node}"
    if spec.get("signerName") != SERVING or spec.get("username") != name or dig(request, "status", "conditions"):
        return False
    subject = x509.load_pem_x509_csr(base64.b64decode(spec["request"])).subject
    return [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [name]


def approve(cluster: Cluster, request: Json) -> None:
    """Approve a request for a certificate."""
    why = {"type": "Approved", "status": "True", "reason": "PodsMachine", "message": "the instance's own machine"}
    body = {**request, "status": {**(request.get("status") or {}), "conditions": [why]}}
    cluster.replace(CSR, body, subresource="approval")


APART_SECONDS = 20.0  # the embedded KubeVirt sets the taint as soon as it sees the other node
LOOK_SECONDS = 0.2  # between looks at the Node


def nodes_are_ready(node: Json | None) -> bool:
    """Tell whether a Node takes pods."""
    return node is not None and is_condition(node, "Ready", "True")


def is_apart(cluster: Cluster, host: str) -> bool:
    """Tell whether the Node of this host keeps ordinary pods away."""
    taints = dig(cluster.get(NODE, host), "spec", "taints") or []
    return any(taint["key"] == MACHINES_ONLY["key"] for taint in taints)


def wait_apart(cluster: Cluster, host: str) -> None:
    """Wait until it does: before, a pod might be bound to it, where nothing runs it.

    Raises:
        TimedOut: it does not.
    """

    def probe() -> bool | NotYet:
        return is_apart(cluster, host) or NotYet(f"it has no taint {MACHINES_ONLY['key']}")

    what = f"node {host} to keep ordinary pods away"
    until(probe, deadline=Deadline.after(APART_SECONDS), what=what, interval=LOOK_SECONDS)


def placement_problem(cluster: Cluster, node: str) -> str:
    """Say why a Node does not take pods, "" when it does."""
    found = cluster.get(NODE, node)
    if nodes_are_ready(found):
        return ""
    if found is None:
        return f"pods: node {node} is not there"
    said = [c["message"] for c in dig(found, "status", "conditions") or [] if c["type"] == "Ready"]
    return f"pods: node {node} is not ready: {said[0] if said else 'its kubelet has not reported yet'}"


ENDED = frozenset({"Succeeded", "Failed"})


def ensure(cluster: Cluster, machine: PodsMachine, *, seconds: float) -> None:
    """Make the machine unless its Node is ready, and wait until that takes pods.

    A machine that died, or that has certificates from before they were renewed, is made anew: nothing of it is kept
    but what its pods have in the API.

    Raises:
        InfraError: the machine ended while it was waited for.  TimedOut: its Node is not ready in time.
    """
    deadline = Deadline.after(seconds)
    if _phase(cluster) in ENDED or _has_old_certificates(cluster, machine):
        _take_down(cluster, machine.node, deadline)
    cluster.ensure(NAMESPACE, manifests.namespace())
    for resource, body in (
        (SECRET, manifests.seed(manifests.user_data(machine), machine.certificates())),
        (DATA_VOLUME, manifests.disk(machine)),
        (VM, manifests.virtual_machine(machine)),
    ):
        cluster.create_if_absent(resource, body)
    manifests.ensure_storage_class(cluster, machine)

    def joined() -> bool | NotYet:
        approve_requests(cluster, machine.node)
        node = cluster.get(NODE, machine.node)
        if not nodes_are_ready(node):
            return NotYet(_state(cluster, node))
        if not serves(cluster, machine.node):
            return NotYet("the API does not reach its kubelet: that has no certificate yet")
        return True if is_apart(cluster, machine.host) else NotYet(f"node {machine.host} still takes pods as well")

    until(joined, deadline=deadline, what=f"node {machine.node} to be ready", interval=LOOK_SECONDS)


def _take_down(cluster: Cluster, node: str, deadline: Deadline) -> None:
    """Take the machine down. Its Node stays, so that nobody's pods go to this host's meanwhile, but is not ready.

    Raises:
        TimedOut: its namespace is not gone in time.
    """
    cluster.delete(NAMESPACE, NAMESPACE_NAME)

    def gone() -> bool | NotYet:
        for pod in cluster.list(POD, NAMESPACE_NAME, fields=f"spec.nodeName={node}").items:
            cluster.delete(POD, pod["metadata"]["name"], NAMESPACE_NAME, grace=0)  # no kubelet ends them any more
        found = cluster.get(NAMESPACE, NAMESPACE_NAME)
        return True if found is None else NotYet(f"it is {dig(found, 'status', 'phase')}")

    until(gone, deadline=deadline, what=f"namespace {NAMESPACE_NAME} to be gone", interval=LOOK_SECONDS)
    if cluster.get(NODE, node) is not None:
        said = {"type": "Ready", "status": "Unknown", "reason": "PodsMachine", "message": "its machine is made anew"}
        cluster.merge(NODE, node, {"status": {"conditions": [said]}}, subresource="status")


def _has_old_certificates(cluster: Cluster, machine: PodsMachine) -> bool:
    found = cluster.get(SECRET, manifests.SEED_NAME, NAMESPACE_NAME)
    known = dig(found, "metadata", "annotations") or {}
    return found is not None and known.get(manifests.CERTIFICATES) != machine.certificates()


def _state(cluster: Cluster, node: Json | None) -> str:
    """Say how far the machine is. Raises InfraError when it has ended."""
    phase = _phase(cluster)
    if phase in ENDED:
        raise InfraError(f"the machine that runs pods ended: {phase}", hint="repair it: vmatrix infra up --pods")
    if node is not None:
        said = [c["message"] for c in dig(node, "status", "conditions") or [] if c["type"] == "Ready"]
        return said[0] if said else "its kubelet has not reported yet"
    return f"its machine is {phase or 'not started'}; its kubelet has not registered it"


def _phase(cluster: Cluster) -> str:
    return str(dig(cluster.get(VMI, NAME, NAMESPACE_NAME), "status", "phase") or "")
