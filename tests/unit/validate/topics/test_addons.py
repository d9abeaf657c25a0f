"""Add-ons that are missing, not ready or not wanted, and usage that is not measured, are found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.kube import ApiFailure, Cluster, Resource
from harness.kube.client import Unreachable
from harness.validate.findings import Mismatch
from harness.validate.topics import addons
from harness.validate.topics.addons import unavailable_deployments, unready_daemon_sets
from harness.validate.variables import ADD_ONS
from tests.unit.validate import guests
from tests.unit.validate.guests import NOWHERE, Change, Json
from tests.unit.validate.views import (
    VERSIONS,
    Judge,
    finds,
    named,
    passes_a_well_guest_only,
    view,
    with_add_ons,
    without,
)


def daemon_set(change: Change) -> Change:
    return lambda raw: change(named(raw["daemon_sets"], "kube-flannel"))


def coredns(change: Change) -> Change:
    return lambda raw: change(named(raw["deployments"], "coredns"))


def scaled_down(deployment: Json) -> None:
    """Let there be one, as the Deployment itself asks for: kubeadm's has two."""
    deployment["spec"]["replicas"] = 1
    deployment["status"].update(replicas=1, updatedReplicas=1, availableReplicas=1)


JUDGES: tuple[Judge, ...] = (
    unavailable_deployments,
    unready_daemon_sets,
)
FAULTS: list[tuple[Judge, Change]] = [
    (unavailable_deployments, without("deployments", "coredns")),
    (unavailable_deployments, coredns(lambda d: d["status"].update(availableReplicas=1))),
    (unavailable_deployments, coredns(lambda d: d["spec"].update(replicas=0))),
    (unavailable_deployments, coredns(scaled_down)),
    (unavailable_deployments, coredns(lambda d: d["metadata"].update(generation=9))),
    (unready_daemon_sets, without("daemon_sets", "kube-proxy")),
    (unready_daemon_sets, without("daemon_sets", "kube-flannel")),
    (unready_daemon_sets, daemon_set(lambda d: d["status"].update(numberReady=1))),
    (unready_daemon_sets, daemon_set(lambda d: d["status"].update(desiredNumberScheduled=1))),
    (unready_daemon_sets, daemon_set(lambda d: d["status"].update(updatedNumberScheduled=0))),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_guest_with_add_ons_passes_where_they_are_wanted(judge: Judge) -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    assert judge(view(with_add_ons), wanted) == []


def test_an_add_on_is_found_where_it_is_missing_or_not_wanted() -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    kinds = (("Deployment", "deployment", unavailable_deployments), ("DaemonSet", "daemon_set", unready_daemon_sets))
    for kind, attribute, judge in kinds:
        places = {f"{kind} {'/'.join(at)}" for one in ADD_ONS.values() if (at := getattr(one, attribute)) is not None}
        assert {found.where for found in judge(view(), wanted)} == places
        unwanted = judge(view(with_add_ons), guests.expected())
        assert {found.where for found in unwanted} == places
        assert {found.seen for found in unwanted} == {"it exists"}


NOW = datetime(2026, 11, 21, 12, 30, 40, tzinfo=UTC)
TAKEN = "2026-11-21T12:30:10Z"
NODES: list[Json] = [
    {
        "metadata": {"name": name},
        "timestamp": TAKEN,
        "window": "20s",
        "usage": {"cpu": "98765432n", "memory": "734512Ki"},
    }
    for name in ("cp-0", "w-0")
]
PODS: list[Json] = [
    {
        "metadata": {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"]},
        "containers": [{"name": "c", "usage": {"cpu": "0", "memory": "20Mi"}}],
    }
    for pod in view().system_pods
]


class Measured(Cluster):
    """An API with these measurements; an error in their place is raised."""

    def __init__(self, nodes: Any = NODES, pods: Any = PODS) -> None:
        super().__init__(NOWHERE)
        self.answers = {addons.NODE_METRICS: nodes, addons.POD_METRICS: pods}

    def list(self, resource: Resource, *_: Any, **__: Any) -> Any:
        answer = self.answers[resource]
        if isinstance(answer, Exception):
            raise answer
        return type("Listing", (), {"items": copy.deepcopy(answer)})


def nodes(answer: Any) -> list[Mismatch]:
    return addons.unmeasured_nodes(Measured(nodes=answer), guests.expected(), timedelta(minutes=2), NOW)


def pods(answer: Any) -> list[Mismatch]:
    return addons.unmeasured_pods(Measured(pods=answer), view(), guests.expected())


def test_measured_nodes_and_pods_pass() -> None:
    assert nodes(NODES) == []
    assert pods(PODS) == []


def changed(**fields: Any) -> list[Json]:
    return [NODES[0], {**NODES[1], **fields}]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "w-0: expected an answer; saw none"),
        (NODES[:1], "w-0: expected an answer; saw none"),
        (changed(usage={"cpu": "0", "memory": "1Ki"}), "w-0: expected cpu above zero; saw '0'"),
        (changed(usage={"cpu": "1n", "memory": "0"}), "w-0: expected memory above zero; saw '0'"),
        (changed(usage={}), "w-0: expected cpu above zero; saw None"),
        (changed(timestamp="2026-11-21T12:20:00Z"), "w-0: expected a measurement of the last 0:02:00"),
        ([*NODES, {**NODES[0], "metadata": {"name": "w-9"}}], "saw ['w-9']"),
        (ApiFailure(503, "ServiceUnavailable", "the server is unable", [], request="GET"), "the server is unable"),
        (Unreachable("GET: timed out"), "timed out"),
    ],
)
def test_a_node_that_is_not_measured_is_found(answer: Any, said: str) -> None:
    assert any(said in str(finding) for finding in nodes(answer))


def on_worker(change: Callable[[Json], None]) -> list[Json]:
    names = {p["metadata"]["name"] for p in view().system_pods if p["spec"]["nodeName"] == "w-0"}
    changed_ = copy.deepcopy(PODS)
    for item in changed_:
        if item["metadata"]["name"] in names:
            change(item)
    return changed_


@pytest.mark.parametrize(
    "answer",
    [
        on_worker(lambda item: item.update(containers=[])),
        on_worker(lambda item: item["containers"][0].update(usage={"cpu": "1n", "memory": "0"})),
        on_worker(lambda item: item["metadata"].update(name="another")),
    ],
)
def test_a_node_without_a_measured_pod_is_found(answer: Any) -> None:
    assert [finding.where for finding in pods(answer)] == ["w-0"]


def test_an_api_that_is_not_served_is_found() -> None:
    (finding,) = pods(ApiFailure(404, "NotFound", "page not found", [], request="GET"))
    assert finding.where == "metrics.k8s.io"
