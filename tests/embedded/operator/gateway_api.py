"""The Gateway API's kinds that the operator writes and reads, served by an API server of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.kube.client import Cluster
from harness.kube.failures import ApiFailure
from harness.kube.resources import CRD, GATEWAY, TLS_ROUTE, Resource
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS

LISTENER = {"name": "tls", "protocol": "TLS", "port": 8443, "tls": {"mode": "Passthrough"}}
TLS_ROUTES = Resource(TLS_ROUTE.group, "v1alpha2", TLS_ROUTE.plural, TLS_ROUTE.kind)


@contextmanager
def serving_gateways(api: Cluster) -> Iterator[None]:
    """Serve the two kinds, with any content; TLSRoutes in a version of their own, as releases of the project do."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kinds = ((GATEWAY, "v1"), (TLS_ROUTES, TLS_ROUTES.version))
    bodies = []
    for kind, version in kinds:
        one = {
            "name": version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        }
        names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
        spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [one]}
        body = CRD.manifest(f"{kind.plural}.{kind.group}", "", labels={}, spec=spec)
        body["metadata"]["annotations"] = {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"
        }
        bodies.append(body)
        api.create(CRD, body)
    for kind, version in kinds:

        def served(kind: Resource = kind, version: str = version) -> bool | NotYet:
            try:
                api.list(Resource(kind.group, version, kind.plural, kind.kind))
            except ApiFailure as failure:
                return NotYet(failure.summary)
            return True

        until(served, deadline=Deadline.after(WAIT_SECONDS), what=f"{kind.plural} to be served", interval=INTERVAL)
    yield
    for body in bodies:
        api.delete(CRD, body["metadata"]["name"])
