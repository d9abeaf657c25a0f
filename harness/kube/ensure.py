"""Make objects hold what is wanted of them; write only where they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import Resource

# Times that are written once and stay: they do not make an object differ.
TIMES = frozenset({"lastTransitionTime", "lastHeartbeatTime", "lastProbeTime"})


def ensure(
    cluster: Cluster,
    resource: Resource,
    body: Json,
    *,
    status_subresource: bool = False,
    create: Callable[[Resource, Json], Json] | None = None,
) -> None:
    """Make an object hold all of `body`, writing only where it does not.

    Args:
        status_subresource: its status is written apart.
        create: makes an object that is not there; `cluster.create` without it.
    """
    meta = body["metadata"]
    found = cluster.get(resource, meta["name"], meta.get("namespace"))
    if found is not None and holds(found, body):
        return
    if found is None:
        try:
            found = (create or cluster.create)(resource, body)
        except ApiFailure as failure:
            if not failure.conflict:
                raise
    # A merge patch replaces lists whole: what was there before does not stay behind in them.
    if found is None or not holds(_without(found, "status"), _without(body, "status")):
        found = cluster.merge(resource, meta["name"], _without(body, "status"), meta.get("namespace"))
    if "status" in body and not holds(found, body):
        patch = {"status": body["status"]}
        subresource = "status" if status_subresource else None
        cluster.merge(resource, meta["name"], patch, meta.get("namespace"), subresource=subresource)


def _without(body: Json, field: str) -> Json:
    return {name: value for name, value in body.items() if name != field}


def holds(found: Any, wanted: Any) -> bool:
    """Tell whether an object holds everything that is wanted of it; fields beyond that are the API's own."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in TIMES or value is None or (name in found and holds(found[name], value))
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
