"""Strip finalizers of declared products' objects at teardown: the controllers that own them go with the namespace.

The namespace itself says which kinds these are: whoever removes a cell may know nothing of its product.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CRD, DEPLOYMENT, JOB, NAMESPACE, POD, REPLICA_SET, Resource
from harness.model import LABEL_DOMAIN

MACHINES = ("kubevirt.io", "cdi.kubevirt.io")  # labels of the pods in which machines and imports run
GRACE_SECONDS = 1  # for a program whose objects go with it; 0 would take its pod away before it has ended
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


def stop_programs(cluster: Cluster, namespace: str) -> bool:
    """End the programs of declared products in a namespace at once; tell whether none of their pods is left.

    A namespace that is deleted with such a pod in it stays for half of the time that the pod may take to end, however
    soon it does: the namespace controller looks again only then. To be called until there is none: what made pods
    makes them anew until it is gone itself. Whoever may not do this has the namespace take its time.
    """
    try:
        return _annotation(cluster, namespace) is None or _stopped(cluster, namespace)
    except ApiFailure as failure:
        if failure.forbidden:
            return True
        raise


def _stopped(cluster: Cluster, namespace: str) -> bool:
    for kind in (DEPLOYMENT, REPLICA_SET, JOB):
        for obj in _listed(cluster, kind, namespace):
            if not obj["metadata"].get("deletionTimestamp"):
                cluster.delete(kind, obj["metadata"]["name"], namespace)
    pods = [pod for pod in _listed(cluster, POD, namespace) if is_own(pod)]
    for pod in pods:
        if pod["metadata"].get("deletionGracePeriodSeconds", GRACE_SECONDS + 1) > GRACE_SECONDS:
            cluster.delete(POD, pod["metadata"]["name"], namespace, grace=GRACE_SECONDS)
    return not pods


def is_own(pod: Json) -> bool:
    """Tell whether a pod is the product's: no machine runs in it, and no import."""
    return not any(label in (pod["metadata"].get("labels") or {}) for label in MACHINES)


def objects(cluster: Cluster, namespace: str) -> Iterator[Json]:
    """Yield each such object."""
    for resource in _kinds(cluster, namespace):
        yield from _listed(cluster, resource, namespace)


def described(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Yield each such object with its finalizers."""
    for obj in objects(cluster, namespace):
        meta = obj["metadata"]
        yield f"{obj['kind']} {meta['name']}: finalizers {', '.join(meta.get('finalizers') or ['none'])}"


def _annotation(cluster: Cluster, namespace: str) -> str | None:
    annotation: str | None = dig(cluster.get(NAMESPACE, namespace), "metadata", "annotations", DECLARED_KINDS)
    return annotation


def _kinds(cluster: Cluster, namespace: str) -> Iterator[Resource]:
    for name in filter(None, (_annotation(cluster, namespace) or "").split(",")):
        definition = cluster.get(CRD, name)
        if definition is None or dig(definition, "spec", "scope") != "Namespaced":
            continue
        spec = definition["spec"]
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
