"""What is in namespaces: looked at by metadata alone, and deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from harness.embedded.namespaces.kinds import ServedKind
from harness.kube.client import ApiFailure, Cluster, Json

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
FEW = 2  # namespaces: for more, one list of all namespaces' objects costs less than one for each
SIDE_BY_SIDE = 8  # requests
BACKGROUND: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}

Metas = list[Json]  # `metadata` of objects
Content = dict[str, dict[ServedKind, Metas]]  # by namespace; what has no object of a kind lacks it


class Contents:
    """Looks at what namespaces have, and deletes it; many requests side by side."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="namespaces")

    def look(self, kinds: Iterable[ServedKind], namespaces: Collection[str]) -> tuple[Content, dict[ServedKind, str]]:
        """Return the objects of some kinds that namespaces have, and what the API said of kinds that it cannot list.

        Raises:
            Unreachable: nobody answers.
        """
        found: Content = defaultdict(dict)
        unlisted: dict[ServedKind, str] = {}
        each = tuple(namespaces) if len(namespaces) <= FEW else (None,)
        for kind, metas, said in self._pool.map(lambda pair: self._list(*pair), product(kinds, each)):
            if said:
                unlisted[kind] = said
            for meta in metas:
                if meta["namespace"] in namespaces:
                    found[meta["namespace"]].setdefault(kind, []).append(meta)
        return found, unlisted

    def _list(self, kind: ServedKind, namespace: str | None) -> tuple[ServedKind, Metas, str]:
        try:
            answer = self._cluster.object("GET", kind.resource.path(namespace), accept=METADATA)
        except ApiFailure as failure:
            gone = failure.not_found  # not served any more: a definition that was deleted meanwhile
            return kind, [], "" if gone else f"{kind.resource.plural}: {failure.message}"
        return kind, [item["metadata"] for item in answer.get("items") or []], ""

    def delete(self, content: Mapping[str, Mapping[ServedKind, Metas]]) -> dict[str, str]:
        """Ask for the deletion of what is not being deleted yet; return what the API said of refusals, by namespace."""
        asked = [
            (namespace, kind, [meta["name"] for meta in metas if "deletionTimestamp" not in meta])
            for namespace, kinds in content.items()
            for kind, metas in kinds.items()
        ]
        wanted = [one for one in asked if one[2]]
        answers = zip(wanted, self._pool.map(lambda one: self._delete(*one), wanted), strict=True)
        return {namespace: said for (namespace, _, _), said in answers if said}

    def _delete(self, namespace: str, kind: ServedKind, names: Collection[str]) -> str:
        whole = kind.collection and len(names) > 1
        paths = [kind.resource.path(namespace, None if whole else name) for name in ([""] if whole else names)]
        said = ""
        for path in paths:
            try:
                self._cluster.request("DELETE", path, body=BACKGROUND)
            except ApiFailure as failure:
                if not failure.not_found:
                    said = f"{kind.resource.plural}: {failure.message}"
        return said

    def stop(self) -> None:
        """Begin no further request."""
        self._pool.shutdown(wait=False, cancel_futures=True)
