"""Whether a Node takes pods, and whether the Node of this host leaves them to it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.embedded.node.placement import MACHINES_ONLY
from harness.infra.pods import apart
from harness.kube.client import Cluster
from harness.kube.resources import NODE, Resource
from harness.until import TimedOut

Json = dict[str, Any]


class Api:
    """Answers with one Node."""

    def __init__(self, node: Json | None) -> None:
        self.node = node

    def get(self, resource: Resource, name: str) -> Json | None:
        assert (resource, name) == (NODE, "n")
        return self.node


def api(node: Json | None) -> Cluster:
    return cast(Cluster, Api(node))


def node(status: str, message: str) -> Json:
    return {"status": {"conditions": [{"type": "Ready", "status": status, "message": message}]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (node("True", "kubelet is posting ready status"), ""),
        (node("Unknown", "Kubelet stopped posting node status."), "not ready: Kubelet stopped posting node status."),
        ({"status": {}}, "its kubelet has not reported yet"),
        (None, "node n is not there"),
    ],
)
def test_a_node_that_takes_no_pods_is_a_problem(found: Json | None, said: str) -> None:
    problem = apart.problem(api(found), "n")
    assert said in problem
    assert bool(problem) == bool(said)


def test_machines_have_a_node_of_their_own_once_it_has_the_taint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "APART_SECONDS", 0.0)
    apart.wait_apart(api({"spec": {"taints": [MACHINES_ONLY]}}), "n")
    with pytest.raises(TimedOut, match="it has no taint"):
        apart.wait_apart(api({"spec": {"taints": [{"key": "other"}]}}), "n")
