"""The host as one node, or as several."""

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
    capacity,
    elsewhere,
    memory_kib,
    node_status,
    placed,
)
from harness.kube.client import Cluster
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.objects import quantity
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


def context_of(api: Api, *nodes: Json, here: tuple[str, ...] = (HERE,)) -> Context:
    cluster = cast(Cluster, api)
    informers = Informers(cluster)
    for each in nodes:
        informers.of(NODE).observe(each)
    return Context(cluster, informers, cast(Events, None), Path(), 0, here)


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


def test_all_nodes_of_this_host_are_tainted_beside_a_node_that_runs_pods() -> None:
    api, here = Api(), (HERE, f"{HERE}-worker")
    context = context_of(api, *map(node, here), node("vmatrix-a-pods", pods=True), here=here)
    placement = Placement(context)
    for name in here:
        placement.reconcile(("", name))
    assert [patch["spec"]["taints"] for patch in api.patches] == [[MACHINES_ONLY]] * 2
    assert not elsewhere(context_of(Api(), *map(node, here), here=here)), "its own Nodes are not another's"


@pytest.mark.parametrize("nodes", [1, 2, 3, 10])
def test_nodes_of_one_host_share_what_it_has(nodes: int, tmp_path: Path) -> None:
    whole, part = capacity(tmp_path), capacity(tmp_path, nodes)
    names = ("cpu", "memory", "ephemeral-storage")
    amounts = {name: [float(quantity(made[name])) for made in (whole, part)] for name in names}
    for name, (all_of_it, share) in amounts.items():
        assert share * nodes == pytest.approx(all_of_it, rel=0.01), name
    free = [float(quantity(allocatable(made, of)["memory"])) for made, of in ((whole, 1), (part, nodes))]
    assert free[1] * nodes == pytest.approx(free[0], rel=0.01)


def test_each_node_has_a_port_of_its_own_for_logs_and_summary() -> None:
    here = tuple(f"{HERE}-{number}" for number in range(3))
    context = context_of(Api(), here=here)
    ends = [node_status(context, name, {})["daemonEndpoints"]["kubeletEndpoint"]["Port"] for name in here]
    assert ends == [10250, 10251, 10252]
    said = [node_status(context, name, {})["addresses"] for name in here]
    assert [{row["type"]: row["address"] for row in rows} for rows in said] == [
        {"InternalIP": context.host_address, "Hostname": name} for name in here
    ]
