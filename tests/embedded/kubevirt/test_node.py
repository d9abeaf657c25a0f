"""The Node that stands for this host comes back when the control plane gave it up, or when somebody deleted it."""

from __future__ import annotations

from collections.abc import Callable

from harness.embedded.objects import is_condition
from harness.infra.embedded.provider import EmbeddedProvider
from harness.kube.client import Cluster
from harness.kube.resources import NODE

Wait = Callable[[Callable[[], object], str], object]


def name_of(cluster: Cluster) -> str:
    (node,) = cluster.list(NODE).items
    return str(node["metadata"]["name"])


def schedulable(cluster: Cluster, name: str) -> bool:
    node = cluster.get(NODE, name)
    return is_condition(node, "Ready", "True") and not (node or {})["spec"].get("taints")


def test_node_that_was_given_up_is_ready_again(infra: EmbeddedProvider, cluster: Cluster, wait: Wait) -> None:
    name = name_of(cluster)
    node = cluster.get(NODE, name)
    assert node is not None
    for condition in node["status"]["conditions"]:
        condition["status"] = "Unknown"
    cluster.replace(NODE, node, subresource="status")
    wait(lambda: schedulable(cluster, name), f"node {name} is Ready and has no taints")


def test_node_that_was_deleted_is_there_again(infra: EmbeddedProvider, cluster: Cluster, wait: Wait) -> None:
    name = name_of(cluster)
    before = cluster.get(NODE, name)
    assert before is not None
    cluster.delete(NODE, name)

    def another() -> bool:
        node = cluster.get(NODE, name)
        return node is not None and node["metadata"]["uid"] != before["metadata"]["uid"]

    wait(another, f"node {name} is made anew")
    wait(lambda: schedulable(cluster, name), f"node {name} is Ready and has no taints")
