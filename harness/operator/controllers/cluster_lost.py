"""Whether a cluster is gone with its machines: nothing can be added to it, and its sets leave the pool to others."""

from __future__ import annotations

from collections.abc import Iterable

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.sets import CONTROL_PLANE, GROUPS
from harness.operator.controllers.machine_phase import lost


def is_gone(cluster: Json | None, machines: Iterable[Json]) -> bool:
    """Tell whether all control planes of a cluster are lost, and its CA with them.

    Args:
        machines: those of the namespace.
    """
    applied = dig(cluster, "status", "applied") or {}
    planes = [host["machine"] for host in applied.get("hosts") or () if GROUPS[CONTROL_PLANE] in host.get("groups", ())]
    there = {machine["metadata"]["name"]: machine for machine in machines}
    return bool(planes) and all(name not in there or lost(there[name]) for name in planes)
