"""Content of namespaces: discover its kinds, list it by metadata alone, and delete it.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product

from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NEEDED = frozenset({"list", "delete"})
COLLECTION = "deletecollection"
STALE = "Stale"
EVENTS_AGAIN = "events.k8s.io"  # the same objects as v1's events
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
FEW = 2  # namespaces: for more, one list of all namespaces' objects costs less than one for each
SIDE_BY_SIDE = 8  # requests
BACKGROUND: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
Metas = list[Json]  # `metadata` of objects


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


Unlisted = dict[str, dict[ContentKind, str]]  # why a kind could not be listed, by namespace
Failed = tuple[ContentKind, str | None, str]
Content = dict[str, dict[ContentKind, Metas]]  # by namespace; what has no object of a kind lacks it


class Contents:
    """Looks at what namespaces have, and deletes it; many requests side by side."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="namespaces")

    def look(self, kinds: Iterable[ContentKind], namespaces: Collection[str]) -> tuple[Content, Unlisted]:
        """Return the objects of some kinds that namespaces have, and what the API said where it could not list them.

        What fails for all namespaces, because of one object somewhere, is asked of each.

        Raises:
            Unreachable: nobody answers.
        """
        found: Content = defaultdict(dict)
        each = tuple(namespaces) if len(namespaces) <= FEW else (None,)
        failed = self._listed(product(kinds, each), found)
        if each == (None,):
            failed = self._listed(product(dict.fromkeys(kind for kind, _, _ in failed), namespaces), found)
        unlisted: Unlisted = defaultdict(dict)
        for kind, namespace, said in failed:
            unlisted[str(namespace)][kind] = said
        return {name: found[name] for name in namespaces if name in found}, unlisted

    def _listed(self, pairs: Iterable[tuple[ContentKind, str | None]], found: Content) -> list[Failed]:
        """Add what lists show of kinds in namespaces (None: in all), and return what could not be listed, and why."""
        failed: list[Failed] = []
        for kind, namespace, metas, said in self._pool.map(lambda pair: self._list(*pair), pairs):
            if said:
                failed.append((kind, namespace, said))
            for meta in metas:
                found[meta["namespace"]].setdefault(kind, []).append(meta)
        return failed

    def _list(self, kind: ContentKind, namespace: str | None) -> tuple[ContentKind, str | None, Metas, str]:
        try:
            answer = self._cluster.object("GET", kind.resource.path(namespace), accept=METADATA)
        except ApiFailure as failure:
            # not served any more, since a definition was deleted meanwhile, or without lists
            gone = failure.not_found or failure.code == HTTPStatus.METHOD_NOT_ALLOWED
            return kind, namespace, [], "" if gone else f"{kind.resource.plural}: {failure.message}"
        return kind, namespace, [item["metadata"] for item in answer.get("items") or []], ""

    def delete(self, content: Mapping[str, Mapping[ContentKind, Metas]]) -> dict[str, str]:
        """Ask for the deletion of what is not being deleted yet; return what the API said of refusals, by namespace."""
        asked = [
            (namespace, kind, [meta["name"] for meta in metas if "deletionTimestamp" not in meta])
            for namespace, kinds in content.items()
            for kind, metas in kinds.items()
        ]
        wanted = [one for one in asked if one[2]]
        answers = zip(wanted, self._pool.map(lambda one: self._delete(*one), wanted), strict=True)
        return {namespace: said for (namespace, _, _), said in answers if said}

    def _delete(self, namespace: str, kind: ContentKind, names: Collection[str]) -> str:
        if kind.collection and len(names) > 1:
            said = self._asked(kind, kind.resource.path(namespace))
            if said is not None:
                return said
        answers = [self._asked(kind, kind.resource.path(namespace, name)) for name in names]
        return next(filter(None, answers), "")

    def _asked(self, kind: ContentKind, path: str) -> str | None:
        """Ask for a deletion; return why it was refused, "" when it was not, None when it is no way to delete."""
        try:
            self._cluster.request("DELETE", path, body=BACKGROUND)
        except ApiFailure as failure:
            if failure.code == HTTPStatus.METHOD_NOT_ALLOWED:
                return None
            return "" if failure.not_found else f"{kind.resource.plural}: {failure.message}"
        except Unreachable as slow:  # a webhook that takes longer than an answer may: others go on
            return f"{kind.resource.plural}: {slow.summary}"
        return ""

    def stop(self) -> None:
        """Begin no further request."""
        self._pool.shutdown(wait=False, cancel_futures=True)
