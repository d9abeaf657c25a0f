"""The Service of a cluster's API and its EndpointSlice: the control planes that can answer; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.objects import owner_reference
from harness.kube.resources import ENDPOINT_SLICE, SERVICE
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.load_balancer import service_name
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, CLUSTER_LABEL

PORT_NAME, API_PORT = "https", 6443
SERVICE_LABEL = "kubernetes.io/service-name"  # which Service a slice belongs to
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"  # so that nobody else's controller touches it


@dataclass(frozen=True)
class Backend:
    """A control plane. down: its node is known not to be ready; not knowing is no reason to leave it out."""

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
