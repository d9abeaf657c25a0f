"""API discovery: what the aggregated API says of itself, and the APIServices by which the cluster finds it."""

from __future__ import annotations

import base64
from http import HTTPStatus

from aiohttp import web

from harness.embedded.crds import KUBEVIRT_VERSION
from harness.embedded.subresources.routing import VMIS, VMS
from harness.kube.client import Cluster, Json
from harness.kube.ensure import ensure
from harness.kube.objects import is_condition
from harness.kube.resources import ENDPOINT_SLICE, SERVICE, Resource
from harness.until import Deadline, NotYet, until

GROUP = "subresources.kubevirt.io"
VERSIONS = ("v1", "v1alpha3")  # the first is preferred
NAMESPACE, NAME, PORT_NAME = "kubevirt", "virt-api", "https"
API_SERVICE = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
AVAILABLE_SECONDS = 30.0  # the API server looks as soon as it is registered; times the factor
SERVER_NAME = f"{NAME}.{NAMESPACE}.svc"  # what the API server expects of the certificate
# KubeVirt's own list (v1.9.0), in its order, of what is served here. It leaves virtualmachines/portforward out.
LISTED = (
    *(f"{VMIS}/{one}" for one in ("console", "portforward", "pause", "unpause", "reset", "softreboot")),
    *(f"{VMS}/{one}" for one in ("start", "stop", "restart")),
    f"{VMIS}/guestosinfo",
)
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
    """Return the APIResourceList of a version: without verbs, as KubeVirt's own."""
    listed = [{"name": name, "singularName": "", "namespaced": True, "kind": "", "verbs": None} for name in LISTED]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": listed,
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
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def endpoints(host: str, port: int) -> Json:
    """Return the EndpointSlice that leads from the Service to this process."""
    labels = {"kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": "vmatrix.dev"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
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
                "service": {"namespace": NAMESPACE, "name": NAME, "port": 443},
            },
        }
        for index, version in enumerate(VERSIONS)
    ]


def register(cluster: Cluster, address: tuple[str, int], authority: bytes) -> None:
    """Have the cluster's API server hand on what is asked of the group; the server listens already.

    Args:
        address: where it listens, as the API server reaches it.
        authority: PEM certificates that sign its own.

    Raises:
        ApiFailure: the API refused something.
    """
    host, port = address
    ensure(cluster, SERVICE, service(port))
    ensure(cluster, ENDPOINT_SLICE, endpoints(host, port))
    for body in api_services(authority):
        ensure(cluster, API_SERVICE, body)


def wait_until_available(cluster: Cluster, stretch: float = 1.0) -> None:
    """Wait until the API server has found the group's server. `stretch`: factor for the wait.

    Raises:
        TimedOut: it does not; with its own words.
    """

    def available() -> bool | NotYet:
        for version in VERSIONS:
            found = cluster.get(API_SERVICE, f"{version}.{GROUP}")
            if not is_condition(found, "Available", "True"):
                return NotYet(_why(found))
        return True

    what = f"the API server to reach {GROUP}"
    until(available, deadline=Deadline.after(AVAILABLE_SECONDS * stretch), what=what, interval=0.05)


def _why(found: Json | None) -> str:
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    return "; ".join(str(c.get("message")) for c in conditions) or "it has not looked yet"
