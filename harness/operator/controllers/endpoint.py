"""Endpoints: a Service in front of the control planes of a cluster that asks for one, put back where it is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import InfraRetriable
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, ensure, holds, owner_reference
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import ENDPOINT_SLICE, SERVICE
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.components import service_name
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE
from harness.operator.api.sets import CONTROL_PLANE
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.machine_phase import claimed_by, follow_claims

PORT_NAME, API_PORT = "https", 6443
SERVICE_LABEL = "kubernetes.io/service-name"  # which Service a slice belongs to
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"  # so that nobody else's controller touches it


@dataclass(frozen=True)
class Backend:
    """A control plane. down: its node is known not to be ready; not knowing is not a reason to leave it out."""

    address: str
    down: bool = False


def objects_of(deployment: Json, planes: Sequence[Backend]) -> list[Json]:
    """Return the Service and the EndpointSlice of a cluster with these control planes.

    Where all are down all are asked, as on the machines: else a cluster that comes back stays cut off.
    """
    namespace, cluster = deployment["metadata"]["namespace"], deployment["metadata"]["name"]
    name = service_name(cluster)
    labels = {CLUSTER_LABEL: cluster, LABEL_MANAGED: MANAGED_BY}
    port = {"name": PORT_NAME, "port": API_PORT, "protocol": "TCP"}
    service = SERVICE.manifest(name, namespace, labels=labels, spec={"ports": [{**port, "targetPort": API_PORT}]})
    all_down = all(plane.down for plane in planes)
    endpoints = [
        {"addresses": [plane.address], "conditions": {"ready": all_down or not plane.down}}
        for plane in sorted(planes, key=lambda one: one.address)
    ]
    ours = {**labels, SERVICE_LABEL: name, MANAGER_LABEL: MANAGED_BY}
    family = "IPv6" if any(":" in plane.address for plane in planes) else "IPv4"
    parts = {"addressType": family, "endpoints": endpoints, "ports": [port]}
    made = [service, ENDPOINT_SLICE.manifest(name, namespace, labels=ours, **parts)]
    for one in made:
        one["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    return made


class EndpointController:
    """Publishes the API servers of clusters."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._clusters = context.informers.of(CLUSTER)
        self._machines = context.informers.of(MACHINE)
        self._kinds = (SERVICE, ENDPOINT_SLICE)
        self._made = [context.informers.of(kind, labels=CLUSTER_LABEL) for kind in self._kinds]
        self.controller = Controller("endpoint", self.reconcile, workers=1)
        for informer in (self._deployments, self._clusters):
            follow(informer, self.controller.queue)
        for informer in self._made:
            follow_children(informer, CLUSTER_DEPLOYMENT, self.controller.queue)
        follow_claims(self._machines, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster."""
        deployment = self._deployments.get(*key)
        if deployment is None or deleting(deployment) or dig(deployment, "spec", "loadBalancer", "type") != "Service":
            return None  # what was made goes with its owner
        planes = self._planes(key)
        if not planes:
            return None
        for kind, informer, body in zip(self._kinds, self._made, objects_of(deployment, planes), strict=True):
            found = informer.get(*key_of(body))
            if found is not None and holds(found, body):
                continue
            there = self._cluster.get(kind, body["metadata"]["name"], key[0])
            if there is not None and (deleting(there) or not owned_by(there, deployment)):
                raise InfraRetriable(
                    f"{kind.kind} {body['metadata']['name']} is another's, or still being deleted",
                    hint="delete it, or give the ClusterDeployment another name",
                )
            ensure(self._cluster, kind, body)
        return None

    def _planes(self, key: Key) -> list[Backend]:
        """Return the control planes that were deployed."""
        applied = dig(self._clusters.get(*key), "status", "applied", "machines") or ()
        return [
            Backend(address, dig(machine, "status", "phase") == "NotReady")
            for machine in claimed_by(self._machines, key)
            if machine["metadata"]["name"] in applied and CONTROL_PLANE in (dig(machine, "status", "roles") or ())
            if (address := _address(machine))
        ]


def _address(machine: Json) -> str:
    return str(dig(machine, "spec", "address") or dig(machine, "status", "infrastructure", "address") or "")


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(EndpointController(context).controller)
