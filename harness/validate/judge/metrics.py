"""What metrics-server must answer: the usage of every node, and of the pods that run on every node.

Asked as `kubectl top` asks, through the API server: so the aggregated API is judged as well. Does not cover how right
the numbers are, only that there are new ones above zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.kube import Cluster
from harness.kube.client import ApiFailure, Unreachable
from harness.kube.resources import Resource
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, on_every

NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
QUANTITY = re.compile(r"(?P<number>\d+)(?:n|u|m|k|Ki|Mi|Gi)?")
MEASURED = ("cpu", "memory")
# Measured every 15 s here, over a window that may be as long again; a machine that is busy answers late.
OLDEST = timedelta(minutes=2)


def unmeasured_nodes(api: Cluster, expected: ExpectedGuest, now: datetime | None = None) -> list[Mismatch]:
    """Return nodes of which there is no usage, none above zero, or none of late; and nodes that are no machine's."""
    found = _listed(api, NODE_METRICS)
    if isinstance(found, Mismatch):
        return [found]
    moment = now or datetime.now(UTC)

    def judge(name: str, seen: Mapping[str, Any]) -> list[Mismatch]:
        taken = datetime.fromisoformat(str(seen["timestamp"]))
        late = [Mismatch(name, f"a measurement of the last {OLDEST}", str(taken))] if moment - taken > OLDEST else []
        return [*_idle(name, seen.get("usage", {})), *late]

    by_name = {item["metadata"]["name"]: item for item in found}
    strangers = sorted(set(by_name) - set(expected.nodes))
    return on_every(expected.nodes, by_name, judge) + differs("metrics-server", "other nodes", [], strangers)


def unmeasured_pods(api: Cluster, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the nodes none of whose system pods has a usage above zero, or that have no system pod at all."""
    found = _listed(api, POD_METRICS)
    if isinstance(found, Mismatch):
        return [found]
    nodes = {(p["metadata"]["namespace"], p["metadata"]["name"]): p["spec"].get("nodeName") for p in view.system_pods}
    measured: dict[str, int] = {}
    for item in found:
        node = nodes.get((item["metadata"]["namespace"], item["metadata"]["name"]))
        # A container that waited the whole window has used no processor; its memory is never zero.
        used = [container.get("usage", {}) for container in item.get("containers", [])]
        if node is not None and used and all(_positive(usage.get("memory")) for usage in used):
            measured[node] = measured.get(node, 0) + 1
    return on_every(expected.nodes, measured, lambda _, count: differs("metrics-server", "any pod", True, count > 0))


def _listed(api: Cluster, resource: Resource) -> list[Any] | Mismatch:
    """Return what metrics-server lists, or the finding that it does not."""
    try:
        return list(api.list(resource).items)
    except (ApiFailure, Unreachable) as failure:
        return Mismatch("metrics.k8s.io", f"a list of {resource.plural}", str(failure))


def _idle(name: str, usage: Mapping[str, Any]) -> list[Mismatch]:
    return [
        Mismatch(name, f"{what} above zero", repr(usage.get(what)))
        for what in MEASURED
        if not _positive(usage.get(what))
    ]


def _positive(quantity: object) -> bool:
    match = QUANTITY.fullmatch(str(quantity))
    return match is not None and int(match["number"]) > 0
