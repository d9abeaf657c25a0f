"""What metrics-server must report: the usage of every node, and of pods on every node.

Requests go through the API server, as those of `kubectl top` do, so the aggregated API is judged as well. Whether the
numbers are right is not judged, only that they are recent and above zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.kube import Cluster
from harness.kube.client import ApiFailure, Unreachable
from harness.kube.resources import Resource
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView, by_name
from harness.validate.findings import Mismatch, differs, on_every

NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
QUANTITY = re.compile(r"(?P<number>\d+)(?:n|u|m|k|Ki|Mi|Gi)?")
MEASURED = ("cpu", "memory")


def unmeasured_nodes(
    api: Cluster, expected: ExpectedGuest, oldest: timedelta, now: datetime | None = None
) -> list[Mismatch]:
    """Return nodes without a recent usage above zero, and nodes that are not the inventory's.

    Args:
        oldest: how old a measurement may be.
    """
    found = _listed(api, NODE_METRICS)
    if isinstance(found, Mismatch):
        return [found]
    moment = now or datetime.now(UTC)

    def judge(name: str, seen: Mapping[str, Any]) -> Iterator[Mismatch]:
        for what in MEASURED:
            usage = seen.get("usage", {}).get(what)
            if not _positive(usage):
                yield Mismatch(name, f"{what} above zero", repr(usage))
        taken = datetime.fromisoformat(str(seen["timestamp"]))
        if moment - taken > oldest:
            yield Mismatch(name, f"a measurement of the last {oldest}", str(taken))

    measured = by_name(found)
    strangers = sorted(set(measured) - set(expected.nodes))
    return on_every(expected.nodes, measured, judge) + differs("metrics-server", "other nodes", [], strangers)


def unmeasured_pods(api: Cluster, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the nodes without a system pod that has a usage above zero."""
    found = _listed(api, POD_METRICS)
    if isinstance(found, Mismatch):
        return [found]
    nodes = {(p["metadata"]["namespace"], p["metadata"]["name"]): p["spec"].get("nodeName") for p in view.system_pods}
    measured: dict[str, int] = {}
    for item in found:
        node = nodes.get((item["metadata"]["namespace"], item["metadata"]["name"]))
        # a container that waited the whole window has used no CPU; its memory is never zero
        used = [container.get("usage", {}) for container in item.get("containers", [])]
        if node is not None and used and all(_positive(usage.get("memory")) for usage in used):
            measured[node] = measured.get(node, 0) + 1
    return on_every(expected.nodes, measured, lambda _, count: differs("metrics-server", "any pod", True, count > 0))


def _listed(api: Cluster, resource: Resource) -> list[Any] | Mismatch:
    """Return what metrics-server lists, or the mismatch that it does not."""
    try:
        return list(api.list(resource).items)
    except (ApiFailure, Unreachable) as failure:
        return Mismatch("metrics.k8s.io", f"a list of {resource.plural}", str(failure))


def _positive(quantity: object) -> bool:
    match = QUANTITY.fullmatch(str(quantity))
    return match is not None and int(match["number"]) > 0
