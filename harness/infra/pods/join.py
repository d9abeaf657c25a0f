"""The machine that runs pods is made, and its kubelet joins the infra cluster. Idempotent."""

from __future__ import annotations

from harness.errors import InfraError
from harness.infra.pods import claims, objects, seed
from harness.infra.pods.apart import is_apart, ready
from harness.infra.pods.machine import NAME, NAMESPACE_NAME, PodsMachine
from harness.infra.pods.serving import approve_requests, serves
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import DATA_VOLUME, NAMESPACE, NODE, POD, SECRET, VM, VMI
from harness.until import Deadline, NotYet, until

ENDED = frozenset({"Succeeded", "Failed"})
LOOK_SECONDS = 0.2  # between looks at the machine and its Node


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
    cluster.ensure(NAMESPACE, objects.namespace())
    for resource, body in (
        (SECRET, objects.seed(seed.user_data(machine), machine.certificates())),
        (DATA_VOLUME, objects.disk(machine)),
        (VM, objects.virtual_machine(machine)),
    ):
        cluster.create_if_absent(resource, body)
    claims.ensure(cluster, machine)

    def joined() -> bool | NotYet:
        approve_requests(cluster, machine.node)
        node = cluster.get(NODE, machine.node)
        if not ready(node):
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
    found = cluster.get(SECRET, objects.SEED_NAME, NAMESPACE_NAME)
    known = dig(found, "metadata", "annotations") or {}
    return found is not None and known.get(objects.CERTIFICATES) != machine.certificates()


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
