"""Manifests of others, applied as they are: any kind that the cluster serves, in the file's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from harness.errors import InfraError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import CRD, Resource
from harness.until import Deadline, NotYet, until

SERVED_SECONDS = 60.0  # an API server that is ready serves a new kind within seconds


def documents(text: str, *, source: str) -> list[Json]:
    """Return the objects of a manifest.

    Raises:
        InfraError: it is not YAML, or something in it is not a Kubernetes object.
    """
    try:
        found = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as error:
        raise InfraError(f"{source} is not YAML: {error}") from error
    wrong = [d for d in found if not isinstance(d, dict) or not {"apiVersion", "kind", "metadata"} <= d.keys()]
    if wrong or not found:
        raise InfraError(f"{source} contains {'something that is not a' if wrong else 'no'} Kubernetes object")
    return found


def apply(cluster: Cluster, objects: list[Json]) -> None:
    """Apply objects server-side, each once its kind is served.

    Raises:
        ApiFailure: the API refused one.  TimedOut: a kind did not come to be served.
    """
    for body in objects:
        resource = resource_of(cluster, body["apiVersion"], body["kind"])
        cluster.apply(resource, body)
        if resource == CRD:
            _wait_established(cluster, body["metadata"]["name"])


def resource_of(cluster: Cluster, api_version: str, kind: str) -> Resource:
    """Return a kind as the cluster serves it, waiting a moment for one whose definition is new.

    Raises:
        TimedOut: the cluster does not serve it.
    """

    def served() -> Resource | NotYet:
        return next(_served(cluster, api_version, kind), NotYet("the API does not list it"))

    what = f"the cluster to serve {kind} of {api_version}"
    return until(served, deadline=Deadline.after(SERVED_SECONDS), what=what, interval=0.5)


def _served(cluster: Cluster, api_version: str, kind: str) -> Iterator[Resource]:
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    try:
        listed: dict[str, Any] = cluster.request("GET", path)
    except ApiFailure as failure:
        if not failure.not_found:
            raise
        return
    for entry in listed.get("resources") or []:
        if entry["kind"] == kind and "/" not in entry["name"]:
            yield Resource(group, version, entry["name"], kind, namespaced=bool(entry["namespaced"]))


def _wait_established(cluster: Cluster, name: str) -> None:
    def established() -> bool | NotYet:
        conditions = ((cluster.get(CRD, name) or {}).get("status") or {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions) or NotYet("it is not yet")

    what = f"CRD {name} to be established"
    until(established, deadline=Deadline.after(SERVED_SECONDS), what=what, interval=0.2)
