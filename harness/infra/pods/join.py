"""The machine that runs pods is made, and its kubelet joins the infra cluster. Idempotent."""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.x509.oid import NameOID

from harness.errors import InfraError
from harness.infra.pods import objects, seed
from harness.infra.pods.machine import NAME, NAMESPACE_NAME, PodsMachine
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, is_condition
from harness.kube.resources import CSR, DATA_VOLUME, NAMESPACE, NODE, SECRET, VM, VMI
from harness.until import Deadline, NotYet, until

SERVING = "kubernetes.io/kubelet-serving"
ENDED = frozenset({"Succeeded", "Failed"})
LOOK_SECONDS = 0.3  # between looks at the machine and its Node


def ensure(cluster: Cluster, machine: PodsMachine, *, seconds: float) -> None:
    """Make the machine unless its Node is ready, and wait until that takes pods.

    A machine that died is made anew: nothing of it is kept but what its pods have in the API.

    Raises:
        InfraError: the machine ended while it was waited for.  TimedOut: its Node is not ready in time.
    """
    deadline = Deadline.after(seconds)
    if _phase(cluster) in ENDED:  # its Node stays ready for as long as its lease is
        remove(cluster, machine.node, deadline)
    elif ready(cluster.get(NODE, machine.node)):
        return
    cluster.ensure(NAMESPACE, objects.namespace())
    for resource, body in (
        (SECRET, objects.seed(seed.user_data(machine))),
        (DATA_VOLUME, objects.disk(machine)),
        (VM, objects.virtual_machine(machine)),
    ):
        cluster.create_if_absent(resource, body)

    def joined() -> bool | NotYet:
        for request in cluster.list(CSR).items:
            if asks_for_serving(request, machine.node):
                approve(cluster, request)
        node = cluster.get(NODE, machine.node)
        return True if ready(node) else NotYet(_state(cluster, node))

    until(joined, deadline=deadline, what=f"node {machine.node} to be ready", interval=LOOK_SECONDS)


def remove(cluster: Cluster, node: str, deadline: Deadline) -> None:
    """Remove the machine and its Node.

    Raises:
        TimedOut: its namespace is not gone in time.
    """
    cluster.delete(NAMESPACE, NAMESPACE_NAME)
    cluster.delete(NODE, node)

    def gone() -> bool | NotYet:
        found = cluster.get(NAMESPACE, NAMESPACE_NAME)
        return True if found is None else NotYet(f"it is {dig(found, 'status', 'phase')}")

    until(gone, deadline=deadline, what=f"namespace {NAMESPACE_NAME} to be gone", interval=LOOK_SECONDS)


def ready(node: Json | None) -> bool:
    """Tell whether a Node takes pods."""
    return node is not None and is_condition(node, "Ready", "True")


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


def _state(cluster: Cluster, node: Json | None) -> str:
    """Say how far the machine is. Raises InfraError when it has ended."""
    if node is not None:
        said = [c["message"] for c in dig(node, "status", "conditions") or [] if c["type"] == "Ready"]
        return said[0] if said else "its kubelet has not reported yet"
    phase = _phase(cluster)
    if phase in ENDED:
        raise InfraError(f"the machine that runs pods ended: {phase}", hint="repair it: vmatrix infra up --pods")
    return f"its machine is {phase or 'not started'}; its kubelet has not registered it"


def _phase(cluster: Cluster) -> str:
    return str(dig(cluster.get(VMI, NAME, NAMESPACE_NAME), "status", "phase") or "")
