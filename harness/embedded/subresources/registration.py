"""Makes the aggregated API part of a cluster: its Service, where that leads, and its APIServices. Idempotent."""

from __future__ import annotations

from harness.embedded.ensure import ensure
from harness.embedded.objects import is_condition
from harness.embedded.subresources import discovery
from harness.kube.client import Cluster, Json
from harness.kube.resources import ENDPOINT_SLICE, SERVICE, Resource
from harness.until import Deadline, NotYet, until

API_SERVICE = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
AVAILABLE_SECONDS = 30.0  # the API server looks as soon as it is registered; this process reads no timeouts.yml


def register(cluster: Cluster, address: tuple[str, int], authority: bytes) -> None:
    """Have the cluster's API server hand on what is asked of the group; the server listens already.

    Args:
        address: where it listens, as the API server reaches it.
        authority: PEM certificates that sign its own.

    Raises:
        ApiFailure: the API refused something.
    """
    host, port = address
    ensure(cluster, SERVICE, discovery.service(port))
    ensure(cluster, ENDPOINT_SLICE, discovery.endpoints(host, port))
    for body in discovery.api_services(authority):
        ensure(cluster, API_SERVICE, body)


def wait_until_available(cluster: Cluster) -> None:
    """Wait until the API server has found the group's server.

    Raises:
        TimedOut: it does not; with its own words.
    """

    def available() -> bool | NotYet:
        for version in discovery.VERSIONS:
            found = cluster.get(API_SERVICE, f"{version}.{discovery.GROUP}")
            if not is_condition(found, "Available", "True"):
                return NotYet(_why(found))
        return True

    what = f"the API server to reach {discovery.GROUP}"
    until(available, deadline=Deadline.after(AVAILABLE_SECONDS), what=what, interval=0.05)


def _why(found: Json | None) -> str:
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    return "; ".join(str(c.get("message")) for c in conditions) or "it has not looked yet"
