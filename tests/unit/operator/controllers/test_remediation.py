"""What is done about machines that are not healthy: every combination of evidence, and what must never be done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from harness.operator.api.clusterdeployment import HealthPolicy, Remedy
from harness.operator.controllers.remediation import Patient, Treatment, Ward, judge, patients
from tests.unit.operator.api.objects import machine

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
TRUTHS: tuple[bool | None, ...] = (True, False, None)
WELL = Patient("well", ready=True, infrastructure=True, answers=True)
HUNG = Patient("w-0", ready=False, since=LONG_AGO, infrastructure=True, answers=False, virtual=True)


def ward(one: Patient, *others: Patient, remediation: Remedy = "Replace", **said: Any) -> Ward:
    policy = HealthPolicy(remediation=remediation, **{k: said.pop(k) for k in ("max_unhealthy",) if k in said})
    return Ward(policy, [one, *(others or [WELL])], NOW, **said)


def reason(one: Patient, found: Ward) -> str | None:
    said = judge(one, found)
    assert said.step is Treatment.NOTHING
    return said.remediating[1] if said.remediating else None


@pytest.mark.parametrize(
    ("ready", "infrastructure", "answers", "virtual"), list(product(TRUTHS, TRUTHS, TRUTHS, (True, False)))
)
@pytest.mark.parametrize("remediation", ["None", "Restart", "Replace"])
def test_only_a_node_that_is_not_ready_and_a_machine_that_is_gone_or_hung_are_enough(
    ready: bool | None, infrastructure: bool | None, answers: bool | None, virtual: bool, remediation: Remedy
) -> None:
    one = Patient("w-0", ready=ready, since=LONG_AGO, infrastructure=infrastructure, answers=answers, virtual=virtual)
    said = judge(one, ward(one, remediation=remediation))
    ill = ready is False and (infrastructure is False or answers is False) and remediation != "None"
    without = Treatment.REPLACE if remediation == "Replace" else Treatment.NOTHING
    first = Treatment.RESTART if virtual else without
    assert said.step is (first if ill else Treatment.NOTHING)
    assert said.healthy[0] is (None if ready and infrastructure is False else ready), "the node's word is older"
    assert (said.remediating is None) is (ready is not False or remediation == "None")


def test_an_api_that_does_not_answer_is_no_evidence() -> None:
    one = replace(HUNG, ready=None, infrastructure=False, node_says="the API of cluster one does not answer")
    said = judge(one, ward(one))
    assert said.step is Treatment.NOTHING
    assert said.healthy == (None, "NodeUnknown", "the API of cluster one does not answer")
    assert said.remediating is None


def test_a_kubelet_that_was_stopped_is_said_and_nothing_is_done() -> None:
    one = replace(
        HUNG, answers=True, answers_says="root can log in; kubelet.service is inactive", node_says="stopped posting"
    )
    said = judge(one, ward(one))
    assert said.healthy[:2] == (False, "NodeNotReady")
    assert said.healthy[2].endswith("stopped posting; root can log in; kubelet.service is inactive")
    assert reason(one, ward(one)) == "NotConfirmed"


def test_a_login_that_fails_counts_only_while_another_machine_answers() -> None:
    deaf = replace(WELL, answers=False)
    assert reason(HUNG, ward(HUNG, deaf)) == "NotConfirmed"
    assert judge(HUNG, ward(HUNG, deaf, WELL)).step is Treatment.RESTART
    gone = replace(HUNG, infrastructure=False)
    assert judge(gone, ward(gone, deaf)).step is Treatment.RESTART


def test_a_machine_that_is_lost_is_left_to_the_plan() -> None:
    one = replace(HUNG, infrastructure=False, lost=True)
    assert reason(one, ward(one)) == "Lost"


@pytest.mark.parametrize("idle", [("Paused", ""), ("OperationRunning", ""), ("Deleting", "")])
def test_nothing_is_done_while_somebody_else_is_at_work(idle: tuple[str, str]) -> None:
    assert reason(HUNG, ward(HUNG, idle=idle)) == idle[0]


def test_a_machine_has_its_time() -> None:
    one = replace(HUNG, since=NOW - timedelta(seconds=299))
    assert reason(one, ward(one)) == "Waiting"
    assert judge(one, ward(one)).again == NOW + timedelta(seconds=1)
    one = replace(HUNG, since=NOW - timedelta(seconds=300))
    assert judge(one, ward(one)).step is Treatment.RESTART
    assert reason(replace(HUNG, since=None), ward(HUNG)) == "Waiting"  # what is not known has just begun


def test_too_many_at_once_are_no_fault_of_machines() -> None:
    other = replace(HUNG, name="w-1")
    assert reason(HUNG, ward(HUNG, other, WELL)) == "TooManyUnhealthy"
    assert judge(HUNG, ward(HUNG, other, WELL, max_unhealthy=2)).step is Treatment.RESTART


def test_the_steps_follow_one_another() -> None:
    assert judge(HUNG, ward(HUNG)).step is Treatment.RESTART
    restarted = replace(HUNG, restarted=NOW - timedelta(seconds=299))
    assert reason(restarted, ward(restarted)) == "Restarted"
    assert judge(restarted, ward(restarted)).again == NOW + timedelta(seconds=1)
    useless = replace(HUNG, restarted=NOW - timedelta(seconds=300))
    assert judge(useless, ward(useless)).step is Treatment.REPLACE
    assert reason(useless, ward(useless, remediation="Restart")) == "RestartDidNotHelp"
    replaced = replace(useless, replace="gone")
    assert reason(replaced, ward(replaced)) == "Replacing"


def test_a_machine_that_is_no_instance_cannot_be_restarted() -> None:
    one = replace(HUNG, virtual=False)
    assert reason(one, ward(one, remediation="Restart")) == "CannotRestart"
    assert judge(one, ward(one)).step is Treatment.REPLACE


def planes(count: int, ill: int, **said: Any) -> list[Patient]:
    """Return control planes with etcd on them, of which the first ones are gone."""
    gone = {"ready": False, "infrastructure": False, "since": LONG_AGO, **said}
    return [
        replace(WELL, name=f"cp-{n}", control_plane=True, etcd=True, **(gone if n < ill else {})) for n in range(count)
    ]


@pytest.mark.parametrize("remediation", ["Restart", "Replace"])
@pytest.mark.parametrize("virtual", [True, False])
@pytest.mark.parametrize(("count", "ill"), [(c, i) for c in (1, 2, 3, 4, 5, 7) for i in range(1, c + 1)])
def test_no_step_is_done_without_a_majority_of_etcd(count: int, ill: int, virtual: bool, remediation: Remedy) -> None:
    found = planes(count, ill, virtual=virtual)
    policy = HealthPolicy(remediation=remediation, max_unhealthy=count)
    said = [judge(one, Ward(policy, found, NOW)) for one in found[:ill]]
    acts = virtual or remediation == "Replace"
    majority = count - ill >= count // 2 + 1
    assert all((one.step is not Treatment.NOTHING) is (acts and majority) for one in said)
    if not majority:
        assert {one.remediating[1] for one in said if one.remediating} <= {"EtcdMajority", "LastControlPlane"}


def test_with_two_of_three_control_planes_gone_nothing_is_done() -> None:
    found = planes(3, 2)
    said = judge(found[0], Ward(HealthPolicy(remediation="Replace", max_unhealthy=3), found, NOW)).remediating
    assert said == (False, "EtcdMajority", "etcd has 3 members and needs 2; without it 1 are well")


def test_external_members_count_for_the_majority_but_are_not_repaired() -> None:
    members = [Patient(f"e-{n}", node=False, etcd=True, answers=True) for n in range(3)]
    gone = replace(members[0], answers=False, answers_says="no route")
    said = judge(gone, Ward(HealthPolicy(remediation="Replace"), [gone, *members[1:]], NOW))
    assert said.healthy == (False, "NotRunning", "it answers no login: no route")
    assert said.step is Treatment.NOTHING
    assert said.remediating is None
    assert judge(members[1], Ward(HealthPolicy(), members, NOW)).healthy[:2] == (True, "Running")
    unknown = replace(members[0], answers=None)
    assert judge(unknown, Ward(HealthPolicy(), [unknown], NOW)).healthy[:2] == (None, "NotKnown")


def test_the_last_control_plane_stays() -> None:
    one = replace(HUNG, control_plane=True)
    assert reason(one, ward(one)) == "LastControlPlane"
    assert judge(one, ward(one, replace(WELL, control_plane=True))).step is Treatment.RESTART


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
