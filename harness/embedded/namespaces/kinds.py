"""The kinds whose objects a namespace may have, as the API's discovery shows them.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.kube.client import Cluster, Json
from harness.kube.resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NEEDED = frozenset({"list", "delete"})
COLLECTION = "deletecollection"
STALE = "Stale"
EVENTS_AGAIN = "events.k8s.io"  # the same objects as v1's events


@dataclass(frozen=True)
class ContentKind:
    """One kind. `collection`: all of its objects in a namespace can be deleted by one request."""

    resource: Resource
    collection: bool


@dataclass(frozen=True)
class Served:
    """What an API serves in namespaces, and the versions of groups of which it cannot say what they have."""

    kinds: tuple[ContentKind, ...]
    stale: tuple[str, ...]


def served(cluster: Cluster) -> Served:
    """Ask an API what its namespaces may have: each kind once, in the version that its group prefers."""
    groups: list[Json] = []
    for path in ("/api", "/apis"):
        groups += cluster.object("GET", path, accept=AGGREGATED).get("items") or []
    kinds: dict[tuple[str, str], ContentKind] = {}
    stale: list[str] = []
    for group in groups:
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or []:
            if version.get("freshness") == STALE:
                stale.append(f"{name}/{version['version']}")
            if name != EVENTS_AGAIN:
                for kind in _kinds(name, version):
                    kinds.setdefault((name, kind.resource.plural), kind)
    return Served(tuple(kinds.values()), tuple(stale))


def _kinds(group: str, version: Json) -> Iterator[ContentKind]:
    for one in version.get("resources") or []:
        verbs = frozenset(one.get("verbs") or ())
        if one.get("scope") == "Namespaced" and verbs >= NEEDED:
            kind = (one.get("responseKind") or {}).get("kind", "")
            yield ContentKind(Resource(group, version["version"], one["resource"], kind), COLLECTION in verbs)
