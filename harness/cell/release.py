"""Finalizers of what will not go: taken off only when a person asks for it, after everything else was tried.

A finalizer is a promise that somebody still has something to clean up (a machine on a node that is dead, a disk at a
storage that is gone). Whoever takes it off says that nobody will; what it stood for is lost then, or left over.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.cell.teardown import ORDER, Found, Selection, find, items, reap
from harness.errors import BadInput, Leaked
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import Resource

FORBIDDEN, NOT_FOUND = 403, 404


def reap_by_force(
    cluster: Cluster,
    selection: Selection,
    *,
    seconds: float,
    on_gone: Callable[[Found], None] = lambda _: None,
    on_released: Callable[[str], None] = lambda _: None,
) -> list[Found]:
    """Take cells away; off what is left of them after that, take the finalizers, and wait again.

    Args:
        seconds: for each cell, twice.
        on_gone, on_released: told each cell that is gone, and each object whose finalizers were taken off.

    Raises:
        Leaked: something stays all the same.  BadInput: finalizers may not be taken off with these rights.
    """
    try:
        return reap(cluster, selection, seconds=seconds, on_gone=on_gone)
    except Leaked:
        left = find(cluster, selection)
    for cell in left:
        for told in release(cluster, cell):
            on_released(told)
    return [*left, *reap(cluster, selection, seconds=seconds, on_gone=on_gone)] if left else []


def release(cluster: Cluster, cell: Found) -> list[str]:
    """Take the finalizers off a cell's objects that are being deleted; return what was touched, for a person.

    Raises:
        BadInput: that is not allowed with these rights.
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
        if refused.code == FORBIDDEN:
            raise BadInput(
                f"the finalizers of {resource.kind} {meta['name']} may not be taken off: {refused.message}",
                hint="no job has the right to: ask the infra cluster's owner, or use an administrator's kubeconfig",
            ) from refused
        if refused.code != NOT_FOUND:
            raise
