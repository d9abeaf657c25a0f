"""Remove the finalizers of objects that will not delete: only when asked for, and after a normal deletion failed.

A finalizer is a promise that a controller still has something to clean up (a machine on a dead node, a disk on storage
that is gone). Without it, that resource may be orphaned.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.cell.found import CellSelector, Found, find
from harness.cell.teardown import ORDER, items, reap
from harness.errors import BadInput, Leaked
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import Resource


def remove_finalizers(
    cluster: Cluster,
    selector: CellSelector,
    *,
    seconds: float,
    on_gone: Callable[[Found], None] = lambda _: None,
    on_released: Callable[[str], None] = lambda _: None,
) -> list[Found]:
    """Remove cells; remove the finalizers of what is left, and wait again.

    Args:
        seconds: for each cell, twice.
        on_gone, on_released: told each cell that is gone, and each object whose finalizers were removed.

    Raises:
        Leaked: something still remains.  BadInput: these rights do not allow removing finalizers.
    """
    try:
        return reap(cluster, selector, seconds=seconds, on_gone=on_gone)
    except Leaked:
        left = find(cluster, selector)
    for cell in left:
        for told in release(cluster, cell):
            on_released(told)
    return [*left, *reap(cluster, selector, seconds=seconds, on_gone=on_gone)] if left else []


def release(cluster: Cluster, cell: Found) -> list[str]:
    """Remove the finalizers of a cell's objects that are being deleted; return what was touched, for a person.

    Raises:
        BadInput: these rights do not allow it.
    """
    touched = []
    for resource in ORDER:
        for obj in items(cluster, resource, cell.namespace, cell.selector):
            meta = obj["metadata"]
            if meta.get("deletionTimestamp") and meta.get("finalizers"):
                _strip(cluster, resource, obj)
                held = ", ".join(meta["finalizers"])
                touched.append(f"{resource.kind} {cell.namespace}/{meta['name']}: {held}")
    return touched


def _strip(cluster: Cluster, resource: Resource, obj: Json) -> None:
    meta = obj["metadata"]
    patch = {"metadata": {"uid": meta["uid"], "finalizers": None}}
    try:
        cluster.merge(resource, meta["name"], patch, meta["namespace"])
    except ApiFailure as refused:
        if refused.forbidden:
            raise BadInput(
                f"the finalizers of {resource.kind} {meta['name']} cannot be removed: {refused.message}",
                hint="ask the infra cluster's owner, or use an administrator's kubeconfig",
            ) from refused
        if not refused.not_found:
            raise
