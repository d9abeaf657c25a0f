"""The guest of a declared cluster: a real API server stands for it, with Nodes that a test writes."""

from __future__ import annotations

from harness.kube.client import Cluster
from harness.kube.objects import now
from harness.kube.resources import NODE

NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)


def node(api: Cluster, name: str, ready: str) -> None:
    """Let a guest's Node be as its kubelet, or its control plane, says."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    api.ensure(NODE, {**body, "spec": {"unschedulable": True}})
    said = {
        "type": "Ready",
        "status": ready,
        "reason": "KubeletReady",
        "message": "played",
        "lastTransitionTime": now(),
    }
    info = dict.fromkeys(NODE_INFO, "") | {"kubeletVersion": "v1.36.3"}
    api.merge(NODE, name, {"status": {"conditions": [said], "nodeInfo": info}}, subresource="status")
