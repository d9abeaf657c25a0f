"""Objects of declared products in a cell's namespace: their controllers go with it, so nobody removes their finalizers.

The namespace itself says which kinds these are: whoever removes a cell may know nothing of its product.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CRD, NAMESPACE, Resource
from harness.model import LABEL_DOMAIN

DECLARED_KINDS = f"{LABEL_DOMAIN}/declared-kinds"  # annotation of a namespace: names of definitions, with commas


def note(cluster: Cluster, namespace: str, kinds: list[str]) -> None:
    """Write into a namespace of which kinds it may have objects with finalizers."""
    cluster.merge(NAMESPACE, namespace, {"metadata": {"annotations": {DECLARED_KINDS: ",".join(sorted(kinds))}}})


def let_go(cluster: Cluster, namespace: str) -> list[str]:
    """Remove the finalizers of such objects that are being deleted, and say whose; nothing in other namespaces."""
    told = []
    for resource in _kinds(cluster, namespace):
        for obj in _listed(cluster, resource, namespace):
            meta = obj["metadata"]
            if meta.get("deletionTimestamp") and meta.get("finalizers"):
                _strip(cluster, resource, obj)
                told.append(f"{resource.kind} {meta['name']}: {', '.join(meta['finalizers'])}")
    return told


def objects(cluster: Cluster, namespace: str) -> Iterator[Json]:
    """Yield each such object."""
    for resource in _kinds(cluster, namespace):
        yield from _listed(cluster, resource, namespace)


def described(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Yield each such object with its finalizers."""
    for obj in objects(cluster, namespace):
        meta = obj["metadata"]
        yield f"{obj['kind']} {meta['name']}: finalizers {', '.join(meta.get('finalizers') or ['none'])}"


def _kinds(cluster: Cluster, namespace: str) -> Iterator[Resource]:
    said = dig(cluster.get(NAMESPACE, namespace), "metadata", "annotations", DECLARED_KINDS) or ""
    for name in filter(None, said.split(",")):
        found = cluster.get(CRD, name)
        if found is None or dig(found, "spec", "scope") != "Namespaced":
            continue
        spec = found["spec"]
        version = next((each["name"] for each in spec["versions"] if each.get("storage")), None)
        if version is not None:
            yield Resource(spec["group"], version, spec["names"]["plural"], spec["names"]["kind"])


def _listed(cluster: Cluster, resource: Resource, namespace: str) -> list[Json]:
    try:
        return cluster.list(resource, namespace).items
    except ApiFailure as failure:
        if failure.not_found:
            return []
        raise


def _strip(cluster: Cluster, resource: Resource, obj: Json) -> None:
    meta = obj["metadata"]
    try:
        patch = {"metadata": {"uid": meta["uid"], "finalizers": None}}
        cluster.merge(resource, meta["name"], patch, meta["namespace"])
    except ApiFailure as failure:  # it has gone meanwhile, perhaps with another one in its place
        if not (failure.not_found or failure.conflict):
            raise
