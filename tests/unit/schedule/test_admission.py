"""How many cells a host holds, by what they declare and by what they were measured to take; and what else bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from harness.embedded.node.registration import MACHINES_ONLY, RESERVED_KIB
from harness.errors import BadInput
from harness.kube import ApiFailure, Cluster, Resource
from harness.kube.client import Json, Listing
from harness.kube.failures import Answer
from harness.kube.resources import NODE, POD, RESOURCE_QUOTA
from harness.model import LABEL_CELL, LABEL_RUN, Cell, Phase, PlannedMachine
from harness.schedule.admission import (
    Admission,
    Bound,
    Outlook,
    Survey,
    _bound,
    check_possible,
    possible,
    refusal,
    request_of,
    survey,
    takes_machines,
)
from harness.schedule.placement import Limits, PodRequest, Rules, demand_of
from harness.schedule.reservations import Book, Entry
from tests.unit.schedule.matrix import Shelf, bound, cell, node, surveyed
from tests.unit.schedule.simulation import NO_CLUSTER

HOST_MIB = 24 * 1024 - RESERVED_KIB // 1024
# The most that the smoke cell's machines took on the embedded infrastructure (docs/performance.md), times 1.2.
MEASURED = {"cp-0": 1235, "w-1": 806}
PLENTY = 64000


def admitted(asked: Mapping[str, int], *, millicpus: int = PLENTY, left: int = HOST_MIB, held: int = 0) -> int:
    """Return how many cells of a control plane and a worker are admitted, one after the other, by a host of 24 GiB.

    left: what the host has available with no machine on it.  held: what each machine keeps of it once it runs.
    """
    cells = [cell(f"c{number}", 2048, 1536) for number in range(40)]
    pods: list[Bound] = []

    def look() -> Survey:
        promised = sum(pod.request.memory_mib for pod in pods)  # taken, or not yet: what is available tells only `held`
        taken = len(pods) * held
        spare = left - taken - sum(max(0, pod.request.memory_mib - held) for pod in pods)
        assert promised <= HOST_MIB, "the scheduler finds no room for what was admitted"
        return Survey((node("n", HOST_MIB, millicpus=millicpus, pods=250),), tuple(pods), left={"n": spare})

    sizes = {one.id: asked for one in cells} if asked else {}
    with Admission(NO_CLUSTER, "r", outlook=Outlook(Rules(), look, Shelf().ledger, sizes)) as admission:
        for number, one in enumerate(cells):
            if admission.try_admit(one) is not None:
                return number
            pods += (Bound("n", request, "r", one.id) for request in demand_of(one, Rules(), asked).pods)
            admission.machines_up(one.id)
    return len(cells)


def test_a_host_of_24_gib_holds_twice_as_many_measured_cells() -> None:
    assert (admitted({}), admitted(MEASURED)) == (5, 10)


def test_processors_bound_it_as_before() -> None:
    assert (admitted({}, millicpus=2000), admitted(MEASURED, millicpus=2000)) == (4, 4)
    assert (admitted({}, millicpus=8000), admitted(MEASURED, millicpus=8000)) == (5, 10)


@pytest.mark.parametrize(
    ("left", "held", "most"), [(HOST_MIB, 450, 10), (10000, 450, 4), (10000, 900, 4), (2000, 0, 0)]
)
def test_what_the_host_has_left_rules_whatever_was_measured(left: int, held: int, most: int) -> None:
    assert admitted(MEASURED, left=left, held=held) == most


def test_a_cell_that_takes_more_than_it_was_admitted_with_leaves_less_for_others() -> None:
    assert admitted(MEASURED, left=HOST_MIB, held=2000) < admitted(MEASURED, left=HOST_MIB, held=700)


def test_the_account_of_a_node_bounds_its_free_memory_and_not_what_may_ever_be_there() -> None:
    seen = Survey((node("a", 8000), node("b", 8000)), (), left={"a": 3000})
    assert [room.memory_mib for room in seen.free] == [3000, 8000]
    assert [room.memory_mib for room in seen.empty()] == [8000, 8000]
    assert [room.memory_mib for room in replace(seen, left={"a": 9000}).free] == [8000, 8000]


def test_a_measured_cell_asks_for_what_it_took_and_the_console() -> None:
    one: Cell = cell("c", 2048, 1536)
    assert [pod.memory_mib for pod in demand_of(one, Rules(), MEASURED).pods] == [1235 + 34, 806 + 34]
    declared = demand_of(one).pods
    assert [pod.memory_mib for pod in demand_of(one, Rules(), {"cp-0": 1235}).pods] == [1269, declared[1].memory_mib]


class Api:
    """What a service account sees whose rights end at its namespace."""

    def __init__(self, hard: Json | None, pods: list[Json], code: int = 403, nodes: list[Json] | None = None) -> None:
        self.hard, self.pods, self.code, self.nodes = hard, pods, code, nodes

    def list(self, resource: Resource, namespace: str | None = None, **_: Any) -> Listing:
        if namespace is None and self.nodes is not None:
            return Listing(self.nodes if resource is NODE else self.pods, "1")
        if resource is NODE or namespace is None:
            raise ApiFailure(self.code, "Forbidden", "no", [], request="GET")
        quotas = [] if self.hard is None else [{"spec": {"hard": self.hard}}]
        return Listing({RESOURCE_QUOTA: quotas, POD: self.pods}[resource], "1")


def pod(memory: str, *, node: str = "", phase: str = "Running") -> Json:
    requests = {"requests": {"memory": memory, "cpu": "100m"}}
    spec: Json = {"containers": [{"name": "c", "resources": requests}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}


def seen(api: Api, namespace: str | None = "cells") -> Any:
    return survey(cast(Cluster, api), namespace)


def test_a_quota_is_the_room_and_pods_with_and_without_a_node_take_of_it() -> None:
    api = Api(
        {"requests.memory": "8Gi", "requests.cpu": "2"}, [pod("1Gi"), pod("2Gi", node="n"), pod("4Gi", phase="Failed")]
    )
    (left,) = seen(api).free
    assert (left.name, left.memory_mib, left.millicpus) == ("the quota of cells", 5 * 1024, 1800)


def test_without_a_quota_or_a_namespace_there_is_no_bound() -> None:
    for found in (seen(Api(None, [])), seen(Api(None, []), None)):
        (room,) = found.free
        assert room.memory_mib > 2**29


def test_a_cell_that_breaks_the_quota_alone_is_refused_before_anything_is_made() -> None:
    machines = (PlannedMachine("m", ("node",), 2, 16 * 1024, 12, "debian-13"),)
    cell = Cell("big", {}, "fresh", (Phase("deploy"),), machines, {})
    with pytest.raises(BadInput, match="the quota of cells"):
        check_possible(seen(Api({"requests.memory": "8Gi"}, [])), {"big": demand_of(cell)}, Limits())


def test_an_api_that_fails_otherwise_is_no_quota() -> None:
    with pytest.raises(ApiFailure):
        seen(Api(None, [], code=500))


def free_node(memory: str) -> Json:
    labels = {"kubevirt.io/schedulable": "true"}
    allocatable = {"memory": memory, "cpu": "8", "pods": "100"}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
    return {"metadata": {"name": "n", "labels": labels}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("quota", "nodes", "said"), [("4Gi", "64Gi", "the quota of cells"), ("64Gi", "4Gi", "n:"), ("64Gi", "64Gi", "")]
)
def test_a_cell_has_to_fit_into_the_quota_and_into_the_nodes(quota: str, nodes: str, said: str) -> None:
    machine = PlannedMachine("m", ("node",), 2, 8 * 1024, 12, "debian-13")
    cell = Cell("c", {}, "fresh", (Phase("deploy"),), (machine,), {})
    both = seen(Api({"requests.memory": quota}, [], nodes=[free_node(nodes)]))

    why = refusal(both, Book(), Entry("h", "r", "c", demand_of(cell)))

    assert said in why
    assert bool(why) == bool(said)
    assert possible(both, demand_of(cell).pods) is not bool(said)


class Telling(Api):
    """A cluster whose one node says what it has available and what its pods keep."""

    def __init__(self, pods: list[Json], available: int, kept: dict[str, int]) -> None:
        labels = {"kubevirt.io/schedulable": "true"}
        status: Json = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"memory": "16Gi", "cpu": "8", "pods": "250"},
        }
        super().__init__(
            None, pods, nodes=[{"metadata": {"name": "n", "labels": labels}, "spec": {}, "status": status}]
        )
        self.body = {
            "node": {"memory": {"availableBytes": available << 20}},
            "pods": [{"podRef": {"uid": uid}, "memory": {"rssBytes": mib << 20}} for uid, mib in kept.items()],
        }

    def send(self, *_: Any, **__: Any) -> Answer:
        return Answer(200, self.body, (), None, "", "application/json")


@pytest.mark.parametrize(
    ("available", "kept", "left"),
    [
        (8000, {"p": 300}, 8000 - 512 - 724),  # the rest of 1 GiB is promised
        (8000, {"p": 2000}, 8000 - 512),  # it has taken more than it was promised
        (8000, {}, 8000 - 512 - 1024),  # nothing is known of it
        (64000, {"p": 300}, 15 * 1024),  # requests alone allow no more
        (300, {"p": 300}, -936),
    ],
)
def test_what_a_node_has_available_counts_without_what_it_has_promised(
    available: int, kept: dict[str, int], left: int
) -> None:
    running = pod("1Gi", node="n")
    running["metadata"]["uid"] = "p"
    (room,) = survey(cast(Cluster, Telling([running], available, kept)), None, 512).free
    assert room.memory_mib == left
    (untold,) = survey(cast(Cluster, Telling([running], available, kept)), None).free
    assert untold.memory_mib == 15 * 1024, "without `measured_memory`, requests alone count"


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


def pod_capacity(labels: Json, owner: str = "") -> Json:
    owners = [{"kind": owner}] if owner else []
    return {"metadata": {"labels": labels, "ownerReferences": owners}, "spec": {"nodeName": "n", "containers": []}}


def test_machines_are_told_from_other_pods_of_a_cell() -> None:
    labels = {LABEL_RUN: "r", LABEL_CELL: "c"}
    machine = _bound(pod_capacity({**labels, "kubevirt.io": "virt-launcher"}))
    assert (machine.run, machine.cell, machine.node) == ("r", "c", "n")
    assert _bound(pod_capacity(labels)).cell == ""


@pytest.mark.parametrize(
    ("owner", "lasting"), [("DaemonSet", True), ("Node", True), ("ReplicaSet", False), ("", False)]
)
def test_pods_that_belong_to_their_node_never_go(owner: str, lasting: bool) -> None:
    assert _bound(pod_capacity({}, owner)).lasting is lasting


def test_the_machine_that_runs_the_clusters_pods_never_goes() -> None:
    launcher = pod_capacity({"kubevirt.io": "virt-launcher"}, "VirtualMachineInstance")
    assert not _bound(launcher).lasting
    launcher["metadata"]["namespace"] = "vmatrix-pods"
    assert _bound(launcher).lasting, "a cell that fits only without it can never begin"


def test_free_is_less_all_pods_and_empty_is_less_the_lasting_ones() -> None:
    lasting = Bound("a", PodRequest(100, 100), lasting=True)
    seen = surveyed([node("a", 1000), node("b", 500)], lasting, bound("c", 300), bound("c", 50, ""), bound("c", 9, "x"))
    assert [n.memory_mib for n in seen.free] == [600, 500]
    assert [n.memory_mib for n in seen.empty()] == [900, 500]
    assert seen.free[0].pods == 108
