"""Kinds of others that the operator writes and reads, served by an API server of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from harness.kube.client import Cluster
from harness.kube.failures import ApiFailure
from harness.kube.resources import CRD, GATEWAY, TLS_ROUTE, Resource
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS

LISTENER = {"name": "tls", "protocol": "TLS", "port": 8443, "tls": {"mode": "Passthrough"}}
TLS_ROUTES = Resource(TLS_ROUTE.group, "v1alpha2", TLS_ROUTE.plural, TLS_ROUTE.kind)


def serving_gateways(api: Cluster) -> AbstractContextManager[None]:
    """Serve the Gateway API's; TLSRoutes in a version of their own, as releases of the project do."""
    return serving(api, GATEWAY, TLS_ROUTES)


@contextmanager
def serving(api: Cluster, *kinds: Resource) -> Iterator[None]:
    """Serve kinds with any content."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bodies = []
    for kind in kinds:
        one = {
            "name": kind.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        }
        names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
        spec = {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [one],
        }
        body = CRD.manifest(f"{kind.plural}.{kind.group}", "", labels={}, spec=spec)
        if kind.group.endswith(".k8s.io"):
            approved = "https://github.com/kubernetes-sigs/gateway-api"
            body["metadata"]["annotations"] = {"api-approved.kubernetes.io": approved}
        bodies.append(body)
        api.create(CRD, body)
    for kind in kinds:

        def served(kind: Resource = kind) -> bool | NotYet:
            try:
                api.list(kind)
            except ApiFailure as failure:
                return NotYet(failure.summary)
            return True

        until(served, deadline=Deadline.after(WAIT_SECONDS), what=f"{kind.plural} to be served", interval=INTERVAL)
    yield
    for body in bodies:
        api.delete(CRD, body["metadata"]["name"])
