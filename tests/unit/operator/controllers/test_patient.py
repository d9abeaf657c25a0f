"""What Machines say, as evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.operator.controllers.patient import Patient, patients
from tests.unit.operator.api.objects import machine

EARLY, LATE = "2026-11-23T11:00:00Z", "2026-11-23T12:00:00Z"


def said(kind: str, status: str, reason: str = "Said", message: str = "so") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": EARLY}


def of(*conditions: dict[str, str], roles: tuple[str, ...] = ("worker",), **spec: Any) -> Patient:
    body = {**machine("w-0", **spec), "status": {"roles": list(roles), "conditions": list(conditions)}}
    return patients([body])[0]


@pytest.mark.parametrize(("status", "truth"), [("True", True), ("False", False), ("Unknown", None)])
def test_conditions_are_evidence_and_unknown_is_none(status: str, truth: bool | None) -> None:
    found = of(said("NodeReady", status), said("InfrastructureReady", status), said("Answering", status))
    assert (found.ready, found.infrastructure, found.answers) == (truth, truth, truth)
    assert of() == Patient("w-0", node_says="nothing is known of its node")


def test_what_a_node_was_before_the_last_operation_ended_does_not_count() -> None:
    body = {**machine("w-0"), "status": {"roles": ["worker"], "conditions": [said("NodeReady", "False")]}}
    noon = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert patients([body])[0].since == noon.replace(hour=11)
    assert patients([body], noon)[0].since == noon
    assert patients([body], noon.replace(hour=10))[0].since == noon.replace(hour=11)


def test_lost_is_what_the_infrastructure_calls_so() -> None:
    assert of(said("InfrastructureReady", "False", "Lost")).lost
    assert not of(said("InfrastructureReady", "False", "Stopped")).lost
    assert not of(said("InfrastructureReady", "True", "Lost")).lost


def test_etcd_runs_on_control_planes_unless_there_is_a_set_for_it() -> None:
    plane = {**machine("cp-0"), "status": {"roles": ["control-plane"]}}
    member = {**machine("e-0"), "status": {"roles": ["etcd"]}}
    assert [one.etcd for one in patients([plane])] == [True]
    assert [(one.etcd, one.node) for one in patients([plane, member])] == [(False, True), (True, False)]


def test_what_is_an_instance_can_be_restarted() -> None:
    assert not of().virtual
    assert of(through={"virtualMachineInstance": "vmi-0"}).virtual
    assert of(kubevirt={"image": "debian-13"}).virtual


@pytest.mark.parametrize(
    ("infrastructure", "answers", "runs"),
    [(True, None, True), (None, True, True), (True, False, False), (False, True, False), (None, None, False)],
)
def test_a_machine_runs_if_something_says_so_and_nothing_the_opposite(
    infrastructure: bool | None, answers: bool | None, runs: bool
) -> None:
    assert Patient("e-0", infrastructure=infrastructure, answers=answers).runs is runs
