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


class ServedKinds:
    """What an API serves, asked once each while this lives; what it does not serve yet is asked again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], Resource] = {}

    def of(self, api_version: str, kind: str) -> Resource | None:
        """Return how a kind is served, None when it is not."""
        found = self._known.get((api_version, kind)) or resource_of(self._cluster, api_version, kind)
        if found is not None:
            self._known[api_version, kind] = found
        return found

    def preferred(self, group: str, kind: str) -> Resource | None:
        """Return how a kind of a group is served in whatever version, None when it is not."""
        if not group:
            return self.of("v1", kind)
        try:
            said = self._cluster.object("GET", f"/apis/{group}")
        except ApiFailure as failure:
            if failure.not_found:
                return None
            raise
        versions = (one["groupVersion"] for one in (said["preferredVersion"], *said["versions"]))
        return next((found for version in versions if (found := self.of(version, kind)) is not None), None)


def named(obj: Json) -> str:
    """Return what an object is called in messages: Kind name."""
    return f"{obj.get('kind', 'object')} {(obj.get('metadata') or {}).get('name', 'without a name')}"
