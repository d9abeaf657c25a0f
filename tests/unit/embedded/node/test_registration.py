"""The host as a node: its capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from harness.embedded.context import Context
from harness.embedded.node.registration import (
    MACHINES_ONLY,
    RUNS_PODS,
    TOLERATION,
    Placement,
    allocatable,
    memory_kib,
    placed,
)
from harness.kube.client import Cluster
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.resources import NODE


def test_memory_is_read_from_meminfo() -> None:
    assert memory_kib("MemTotal:       24683400 kB\nMemFree: 1 kB\n") == 24683400
    with pytest.raises(ValueError, match="MemTotal"):
        memory_kib("MemFree: 1 kB\n")


def test_control_plane_keeps_its_memory() -> None:
    free = allocatable({"memory": "24683400Ki", "cpu": "2"})
    assert free == {"memory": f"{24683400 - 1536 * 1024}Ki", "cpu": "2"}


Json = dict[str, Any]
HERE = "vmatrix-a"
OTHERS_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Api:
    """Records what is written to the Node."""

    def __init__(self) -> None:
        self.patches: list[Json] = []

    def merge(self, _: object, name: str, patch: Json) -> Json:
        self.patches.append(patch)
        return node(name, taints=patch["spec"]["taints"], version="2")


def node(name: str, *, pods: bool = False, taints: list[Json] | None = None, version: str = "1") -> Json:
    labels = {RUNS_PODS: "true"} if pods else {}
    return {"metadata": {"name": name, "labels": labels, "resourceVersion": version}, "spec": {"taints": taints or []}}


def context_of(api: Api, *nodes: Json) -> Context:
    cluster = cast(Cluster, api)
    informers = Informers(cluster)
    for each in nodes:
        informers.of(NODE).observe(each)
    return Context(cluster, informers, cast(Events, None), Path(), 0, HERE)


def test_alone_a_pod_is_as_a_real_kubevirts() -> None:
    pod = {"spec": {"nodeSelector": {"a": "b"}}}
    assert placed(context_of(Api(), node(HERE), node("worker")), pod) is pod


def test_beside_a_node_that_runs_pods_it_names_this_host_and_bears_its_taint() -> None:
    pod: Json = {"metadata": {"name": "p"}, "spec": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "own"}]}}
    made = placed(context_of(Api(), node(HERE), node("vmatrix-a-pods", pods=True)), pod)
    assert made["spec"]["nodeSelector"] == {"a": "b", "kubevirt.io/schedulable": "true"}
    assert made["spec"]["tolerations"] == [{"key": "own"}, TOLERATION]
    assert pod["spec"]["tolerations"] == [{"key": "own"}]
    assert made["metadata"] == {"name": "p"}


@pytest.mark.parametrize(
    ("pods", "had", "written"),
    [
        (True, [], [[MACHINES_ONLY]]),
        (True, [OTHERS_TAINT], [[OTHERS_TAINT, MACHINES_ONLY]]),
        (True, [MACHINES_ONLY], []),
        (False, [MACHINES_ONLY, OTHERS_TAINT], [[OTHERS_TAINT]]),
        (False, [OTHERS_TAINT], []),
    ],
)
def test_the_taint_comes_and_goes_with_the_other_node(pods: bool, had: list[Json], written: list[list[Json]]) -> None:
    api = Api()
    context = context_of(api, node(HERE, taints=had), node("vmatrix-a-pods", pods=pods))
    Placement(context).reconcile(("", HERE))
    assert [patch["spec"]["taints"] for patch in api.patches] == written
    assert all(patch["metadata"] == {"resourceVersion": "1"} for patch in api.patches)


def test_a_node_that_is_not_there_is_left_to_who_makes_it() -> None:
    api = Api()
    Placement(context_of(api, node("vmatrix-a-pods", pods=True))).reconcile(("", HERE))
    assert api.patches == []
