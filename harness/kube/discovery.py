"""How an API serves a kind, asked of the API itself: for objects of kinds that vmatrix does not know by name."""

from __future__ import annotations

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.resources import Resource


def resource_of(cluster: Cluster, api_version: str, kind: str) -> Resource | None:
    """Return how a kind is served, None when it is not.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#discovery-api
    """
    group, _, version = api_version.rpartition("/")
    try:
        listed = cluster.object("GET", f"/apis/{api_version}" if group else f"/api/{version}")
    except ApiFailure as failure:
        if failure.not_found:
            return None
        raise
    for served in listed.get("resources") or []:
        if served["kind"] == kind and "/" not in served["name"]:
            return Resource(group, version, served["name"], kind, namespaced=served["namespaced"])
    return None


def named(obj: Json) -> str:
    """Return what an object is called in messages: Kind name."""
    return f"{obj.get('kind', 'object')} {(obj.get('metadata') or {}).get('name', 'without a name')}"
