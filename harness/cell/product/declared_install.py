"""What must be there before a phase can be applied: kinds in the infra cluster, controllers in the cell's namespace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.cell import finalizers
from harness.cell.product.declared_pods import PodWatch
from harness.cell.product.protocol import OuterCluster
from harness.errors import BadInput, ProductError
from harness.kube.client import Cluster, Json
from harness.kube.discovery import named, resource_of
from harness.kube.objects import dig, is_condition
from harness.kube.resources import CRD, DEPLOYMENT, NAMESPACE, Resource
from harness.until import Deadline, NotYet, TimedOut, until

DIGEST = "vmatrix.dev/digest"
NAMESPACED = "products of kind declared put objects of a cell into its namespace, so that they go with it"


def install_kinds(outer: OuterCluster, objects: Sequence[Json]) -> None:
    """Have objects in the infra cluster that all cells share; what another revision of them added stays.

    Raises:
        BadInput: both revisions have what the other one lacks.
    """
    cluster, deadline = outer.cluster, Deadline.after(outer.timeouts.controllers)
    for obj in objects:
        resource = _served(cluster, obj, deadline)
        digest = hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()[:16]
        there = cluster.get(resource, obj["metadata"]["name"])
        if there is not None and _holds(there, obj, digest):
            continue
        meta = obj["metadata"]
        marked = {**meta, "annotations": {**(meta.get("annotations") or {}), DIGEST: digest}}
        cluster.apply(resource, {**obj, "metadata": marked})
    for obj in (o for o in objects if o["kind"] == CRD.kind):
        _wait_established(cluster, obj["metadata"]["name"], deadline)


def install_controllers(outer: OuterCluster, namespace: str, objects: Sequence[Json], kinds: Sequence[Json]) -> None:
    """Have a cell's controllers in its namespace, and note there which kinds they may leave finalizers on.

    What is in no namespace is shared by all cells, but for what has the namespace in its name: that goes with it.

    Raises:
        BadInput: an object of them is in another namespace.
        ProductError, InfraError, HarnessBug: they do not become available; whose fault that is.
    """
    cluster, deadline = outer.cluster, Deadline.after(outer.timeouts.controllers)
    names = {obj["metadata"]["name"] for obj in (*kinds, *objects) if obj["kind"] == CRD.kind}
    finalizers.note(cluster, namespace, sorted(names))
    within = {id(obj): _served(cluster, obj, deadline).namespaced for obj in objects}
    shared = [obj for obj in objects if not within[id(obj)] and namespace not in obj["metadata"]["name"]]
    install_kinds(outer, shared)
    _apply_with(cluster, namespace, [o for o in objects if not within[id(o)] and o not in shared], deadline)
    apply_all(cluster, namespace, [obj for obj in objects if within[id(obj)]], deadline)
    watch = PodWatch(outer, namespace)
    for obj in (o for o in objects if o["kind"] == DEPLOYMENT.kind):
        _wait_available(cluster, namespace, obj["metadata"]["name"], watch, deadline)


def apply_all(cluster: Cluster, namespace: str, objects: Sequence[Json], deadline: Deadline) -> None:
    """Apply objects server-side in a namespace, in their order."""
    for obj in objects:
        resource = _served(cluster, obj, deadline)
        where = obj["metadata"].get("namespace", namespace)
        if not resource.namespaced or where != namespace:
            raise BadInput(f"{named(obj)} is not in the cell's namespace {namespace}", hint=NAMESPACED)
        cluster.apply(resource, {**obj, "metadata": {**obj["metadata"], "namespace": namespace}})


def _apply_with(cluster: Cluster, namespace: str, objects: Sequence[Json], deadline: Deadline) -> None:
    """Apply objects that are in no namespace, and that the garbage collector takes away with one."""
    found = cluster.get(NAMESPACE, namespace)
    owners = (
        [{"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": found["metadata"]["uid"]}] if found else []
    )
    for obj in objects:
        meta = {**obj["metadata"], "ownerReferences": owners}
        cluster.apply(_served(cluster, obj, deadline), {**obj, "metadata": meta})


def _served(cluster: Cluster, obj: Json, deadline: Deadline) -> Resource:
    """Return how an object's kind is served; a kind that was defined just now is served a moment later."""

    def look() -> Resource | NotYet:
        return resource_of(cluster, obj["apiVersion"], obj["kind"]) or NotYet("the API does not serve it")

    what = f"{obj['apiVersion']} {obj['kind']} to be served"
    try:
        return until(look, deadline=deadline, what=what)
    except TimedOut as late:
        hint = "`install` of the product must define the kind, or the infra cluster must have it"
        raise BadInput(f"the infra cluster does not serve {obj['apiVersion']} {obj['kind']}", hint=hint) from late


def _holds(there: Json, wanted: Json, digest: str) -> bool:
    """Tell whether an object need not be applied. Raises BadInput where neither is an extension of the other."""
    if dig(there, "metadata", "annotations", DIGEST) == digest:
        return True
    if wanted["kind"] != CRD.kind:
        return False
    has, wants = set(_fields(there["spec"])), set(_fields(wanted["spec"]))
    if has - wants and wants - has:
        raise BadInput(
            f"{named(wanted)} in the infra cluster is of another revision: it has {_some(has - wants)}, and lacks "
            f"{_some(wants - has)}",
            hint="use an infra cluster of its own, or delete that definition when no cell uses it",
        )
    return bool(has - wants)


def _fields(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of every field that a definition knows, in each of its versions."""
    ahead = [(v["name"], dig(v, "schema", "openAPIV3Schema") or {}) for v in spec.get("versions") or []]
    while ahead:
        at, schema = ahead.pop()
        yield at
        inner = [(f"{at}.{name}", field) for name, field in (schema.get("properties") or {}).items()]
        beneath = (schema.get(key) for key in ("items", "additionalProperties"))
        ahead += [*inner, *((f"{at}[]", each) for each in beneath if isinstance(each, Mapping))]


def _some(paths: set[str]) -> str:
    named, more = sorted(paths)[:3], len(paths) - 3
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _wait_established(cluster: Cluster, name: str, deadline: Deadline) -> None:
    def look() -> bool | NotYet:
        found = cluster.get(CRD, name)
        return is_condition(found, "Established", "True") or NotYet("it is not Established")

    until(look, deadline=deadline, what=f"the kind {name} to be served")


def _wait_available(cluster: Cluster, namespace: str, name: str, watch: PodWatch, deadline: Deadline) -> None:
    def look() -> bool | NotYet:
        found = cluster.get(DEPLOYMENT, name, namespace)
        if found is None:
            raise ProductError(f"Deployment {name} is gone, which was applied just now")
        watch.refuse_broken()
        current = (dig(found, "status", "observedGeneration") or 0) >= found["metadata"]["generation"]
        updated = (dig(found, "status", "updatedReplicas") or 0) >= (dig(found, "spec", "replicas") or 0)
        if current and updated and is_condition(found, "Available", "True"):
            return True
        return NotYet(watch.said() or f"{dig(found, 'status', 'availableReplicas') or 0} replicas are available")

    try:
        until(look, deadline=deadline, what=f"Deployment {name} to be available", describe=watch.described)
    except TimedOut as late:
        raise watch.verdict(f"Deployment {name} is not available: {late.summary}", late.detail) from late
