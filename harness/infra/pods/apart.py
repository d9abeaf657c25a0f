"""Ordinary pods and machines have nodes of their own: told from what the API says of the Nodes."""

from __future__ import annotations

from harness.embedded.node.placement import MACHINES_ONLY
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, is_condition
from harness.kube.resources import NODE
from harness.until import Deadline, NotYet, until

APART_SECONDS = 20.0  # the embedded KubeVirt sets the taint as soon as it sees the other node
LOOK_SECONDS = 0.2  # between looks at the Node


def ready(node: Json | None) -> bool:
    """Tell whether a Node takes pods."""
    return node is not None and is_condition(node, "Ready", "True")


def is_apart(cluster: Cluster, host: str) -> bool:
    """Tell whether the Node of this host keeps ordinary pods away."""
    taints = dig(cluster.get(NODE, host), "spec", "taints") or []
    return any(taint["key"] == MACHINES_ONLY["key"] for taint in taints)


def wait_apart(cluster: Cluster, host: str) -> None:
    """Wait until it does: before, a pod might be bound to it, where nothing runs it.

    Raises:
        TimedOut: it does not.
    """

    def probe() -> bool | NotYet:
        return is_apart(cluster, host) or NotYet(f"it has no taint {MACHINES_ONLY['key']}")

    what = f"node {host} to keep ordinary pods away"
    until(probe, deadline=Deadline.after(APART_SECONDS), what=what, interval=LOOK_SECONDS)


def problem(cluster: Cluster, node: str) -> str:
    """Say why a Node does not take pods, "" when it does."""
    found = cluster.get(NODE, node)
    if ready(found):
        return ""
    if found is None:
        return f"pods: node {node} is not there"
    said = [c["message"] for c in dig(found, "status", "conditions") or [] if c["type"] == "Ready"]
    return f"pods: node {node} is not ready: {said[0] if said else 'its kubelet has not reported yet'}"
