"""The Node that stands for this host comes back when the control plane gave it up, or when somebody deleted it."""

from __future__ import annotations

from collections.abc import Callable

from harness.kube.client import Cluster
from harness.kube.objects import is_condition
from harness.kube.resources import NODE, POD
from harness.providers.embedded import EmbeddedProvider

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


def test_a_bound_pod_that_is_no_machine_s_goes_when_it_is_deleted(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, wait: Wait
) -> None:
    spec = {"containers": [{"name": "c", "image": "nowhere.invalid/c"}], "terminationGracePeriodSeconds": 3600}
    meta = {"name": "stranger", "namespace": namespace}
    cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def bound() -> bool:
        pod = cluster.get(POD, "stranger", namespace)
        return pod is not None and pod["spec"].get("nodeName") == name_of(cluster)

    wait(bound, "the scheduler binds the pod to the node")

    cluster.delete(POD, "stranger", namespace)

    wait(lambda: cluster.get(POD, "stranger", namespace) is None, "the pod is gone")
