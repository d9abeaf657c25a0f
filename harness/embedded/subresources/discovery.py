"""What the aggregated API says of itself, and how the cluster comes to know of it."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from harness.embedded.crds import KUBEVIRT_VERSION
from harness.kube.client import Json

GROUP = "subresources.kubevirt.io"
VERSIONS = ("v1", "v1alpha3")  # the first is preferred
NAMESPACE, SERVICE, PORT_NAME = "kubevirt", "virt-api", "https"
SERVER_NAME = f"{SERVICE}.{NAMESPACE}.svc"  # what the API server expects of the certificate


def group() -> Json:
    """Return the APIGroup."""
    versions = [{"groupVersion": f"{GROUP}/{v}", "version": v} for v in VERSIONS]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def groups() -> Json:
    """Return the APIGroupList."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]}


def resources(version: str, served: Iterable[tuple[str, str]]) -> Json:
    """Return the APIResourceList of a version.

    Args:
        served: pairs of a plural and a subresource.
    """
    listed = [
        {"name": f"{plural}/{subresource}", "singularName": "", "namespaced": True, "kind": "", "verbs": []}
        for plural, subresource in served
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": sorted(listed, key=lambda one: str(one["name"])),
    }


def release() -> Json:
    """Return what `/version` says."""
    major, minor = KUBEVIRT_VERSION.removeprefix("v").split(".")[:2]
    return {"gitVersion": KUBEVIRT_VERSION, "major": major, "minor": minor, "platform": "linux/amd64"}


def service(port: int) -> Json:
    """Return the Service without a selector that the API server asks at."""
    ports = [{"name": PORT_NAME, "port": 443, "protocol": "TCP", "targetPort": port}]
    metadata = {"name": SERVICE, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def endpoints(host: str, port: int) -> Json:
    """Return the EndpointSlice that leads from the Service to this process."""
    labels = {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": "vmatrix.dev"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }


def api_services(authority: bytes) -> list[Json]:
    """Return the APIServices, one a version.

    Args:
        authority: PEM certificates that sign this server's.
    """
    return [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": version,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15 - index,
                "caBundle": base64.b64encode(authority).decode(),
                "service": {"namespace": NAMESPACE, "name": SERVICE, "port": 443},
            },
        }
        for index, version in enumerate(VERSIONS)
    ]
