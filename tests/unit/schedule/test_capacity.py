"""What of nodes and pods counts: as the scheduler counts them, on nodes where launcher pods can go."""

from __future__ import annotations

from typing import Any

import pytest

from harness.embedded.node.registration import MACHINES_ONLY
from harness.kube.client import Json
from harness.model import LABEL_CELL, LABEL_RUN
from harness.schedule.capacity import Bound, _bound, request_of, takes_machines
from harness.schedule.demand import PodRequest
from tests.unit.schedule.matrix import bound, node, surveyed


def asking(memory: str, cpu: str = "0", **fields: Any) -> Json:
    return {"resources": {"requests": {"memory": memory, "cpu": cpu}}, **fields}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [asking("1Gi", "500m"), asking("1Mi", "1")]}, PodRequest(1025, 1500)),
        ({"containers": [{}]}, PodRequest(0, 0)),
        ({"containers": [asking("1")]}, PodRequest(1, 0)),
        ({"containers": [asking("10Mi")], "initContainers": [asking("30Mi")]}, PodRequest(30, 0)),
        (
            {"containers": [asking("10Mi")], "initContainers": [asking("5Mi", restartPolicy="Always")]},
            PodRequest(15, 0),
        ),
        (
            {
                "containers": [asking("10Mi")],
                "initContainers": [asking("5Mi", restartPolicy="Always"), asking("9Mi")],
            },
            PodRequest(15, 0),
        ),
        (
            {
                "containers": [asking("1Mi")],
                "initContainers": [asking("5Mi", restartPolicy="Always"), asking("9Mi")],
            },
            PodRequest(14, 0),
        ),
        ({"containers": [asking("10Mi")], "overhead": {"memory": "120Mi", "cpu": "250m"}}, PodRequest(130, 250)),
        ({"containers": [asking("10Mi")], "resources": {"requests": {"memory": "64Mi"}}}, PodRequest(64, 0)),
    ],
)
def test_a_pods_request_is_what_the_scheduler_counts(spec: Json, expected: PodRequest) -> None:
    assert request_of(spec) == expected


def real_node(**changes: Any) -> Json:
    labels = changes.pop("labels", {"kubevirt.io/schedulable": "true"})
    ready = {"type": "Ready", "status": changes.pop("ready", "True")}
    return {"metadata": {"name": "n", "labels": labels}, "spec": changes, "status": {"conditions": [ready]}}


def test_only_nodes_that_launcher_pods_can_go_to_count() -> None:
    assert takes_machines(real_node())
    assert takes_machines(real_node(taints=[{"key": "x", "effect": "PreferNoSchedule"}]))
    assert not takes_machines(real_node(ready="False"))
    assert not takes_machines(real_node(unschedulable=True))
    assert not takes_machines(real_node(labels={}))
    assert not takes_machines(real_node(labels={"kubevirt.io/schedulable": "false"}))
    assert not takes_machines(real_node(taints=[{"key": "x", "effect": "NoSchedule"}]))


def test_a_taint_that_keeps_only_ordinary_pods_away_keeps_no_machines_away() -> None:
    assert takes_machines(real_node(taints=[MACHINES_ONLY]))
    assert not takes_machines(real_node(taints=[MACHINES_ONLY, {"key": "x", "effect": "NoSchedule"}]))


def pod(labels: Json, owner: str = "") -> Json:
    owners = [{"kind": owner}] if owner else []
    return {"metadata": {"labels": labels, "ownerReferences": owners}, "spec": {"nodeName": "n", "containers": []}}


def test_machines_are_told_from_other_pods_of_a_cell() -> None:
    labels = {LABEL_RUN: "r", LABEL_CELL: "c"}
    machine = _bound(pod({**labels, "kubevirt.io": "virt-launcher"}))
    assert (machine.run, machine.cell, machine.node) == ("r", "c", "n")
    assert _bound(pod(labels)).cell == ""


@pytest.mark.parametrize(
    ("owner", "lasting"), [("DaemonSet", True), ("Node", True), ("ReplicaSet", False), ("", False)]
)
def test_pods_that_belong_to_their_node_never_go(owner: str, lasting: bool) -> None:
    assert _bound(pod({}, owner)).lasting is lasting


def test_the_machine_that_runs_the_clusters_pods_never_goes() -> None:
    launcher = pod({"kubevirt.io": "virt-launcher"}, "VirtualMachineInstance")
    assert not _bound(launcher).lasting
    launcher["metadata"]["namespace"] = "vmatrix-pods"
    assert _bound(launcher).lasting, "a cell that fits only without it can never begin"


def test_free_is_less_all_pods_and_empty_is_less_the_lasting_ones() -> None:
    lasting = Bound("a", PodRequest(100, 100), lasting=True)
    seen = surveyed([node("a", 1000), node("b", 500)], lasting, bound("c", 300), bound("c", 50, ""), bound("c", 9, "x"))
    assert [n.memory_mib for n in seen.free] == [600, 500]
    assert [n.memory_mib for n in seen.empty()] == [900, 500]
    assert seen.free[0].pods == 108
