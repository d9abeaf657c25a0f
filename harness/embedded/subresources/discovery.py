"""What the aggregated API says of itself, and how the cluster comes to know of it."""

from __future__ import annotations

import base64
from http import HTTPStatus

from aiohttp import web

from harness.embedded.crds import KUBEVIRT_VERSION
from harness.embedded.subresources.operations import SERVED
from harness.kube.client import Json

GROUP = "subresources.kubevirt.io"
VERSIONS = ("v1", "v1alpha3")  # the first is preferred
NAMESPACE, SERVICE, PORT_NAME = "kubevirt", "virt-api", "https"
SERVER_NAME = f"{SERVICE}.{NAMESPACE}.svc"  # what the API server expects of the certificate
# What anybody may ask.
ANYBODYS = frozenset({"/", "/apis", "/healthz", f"/apis/{GROUP}"}) | {
    f"/apis/{GROUP}/{version}{path}" for version in VERSIONS for path in ("", "/version", "/guestfs", "/healthz")
}


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


def resources(version: str) -> Json:
    """Return the APIResourceList of a version."""
    listed = [
        {"name": f"{plural}/{subresource}", "singularName": "", "namespaced": True, "kind": "", "verbs": []}
        for plural, subresource in SERVED
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


def described(path: str) -> web.Response:
    """Answer what anybody may ask."""
    root = f"/apis/{GROUP}"
    if path == "/":
        return web.json_response({"paths": ["/apis", root, "/healthz"]})
    if path == "/apis":
        return web.json_response(groups())
    if path == root:
        return web.json_response(group())
    version, _, last = path.removeprefix(f"{root}/").partition("/")
    if version in VERSIONS and not last:
        return web.json_response(resources(version))
    if last == "version":
        return web.json_response(release())
    if last == "healthz" or path == "/healthz":
        return web.json_response({"apiserver": {"connectivity": "ok"}})
    return web.Response(status=HTTPStatus.NOT_FOUND, text="404: Page Not Found")


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
    """Return the APIServices, one a version; `authority`: PEM certificates that sign this server's."""
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
