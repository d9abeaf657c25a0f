"""What happens to a cluster next: a case for every operation and every reason to wait, and the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.api.cluster import CurrentOperation
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import DUTIES, Duty, Nothing, due_of, next_operation, plan
from harness.operator.decide.waits import Wait, WaitReason
from tests.unit.operator.api import objects
from tests.unit.operator.decide.wishes import CP, MACHINES, NOW, WORKERS, claimed, deployed, operation, past, wait, wish

FRESH = Observed(NOW)


def duty(one: CurrentOperation) -> Duty:
    """Return the kind of an operation."""
    return next(duty for duty in DUTIES if duty.operation == one.operation)


def test_a_wish_with_all_its_machines_is_deployed() -> None:
    one = operation(next_operation(wish(), FRESH))
    assert (one.operation, duty(one).entry, duty(one).disruptive) == ("deploy", "cluster.yml", False)
    assert (one.machines, one.sequence, one.attempt) == (("cp-0", "w-1", "w-2"), 1, 1)
    assert one.why == "there is no cluster yet"
    assert one.applies is not None
    assert (one.applies.version, one.applies.machines) == ("1.36.3", one.machines)


def test_a_cluster_that_is_there_is_adopted_instead_of_deployed() -> None:
    one = operation(next_operation(wish(adopt=True), FRESH))
    assert (one.operation, duty(one).entry, duty(one).disruptive) == ("adopt", "adopt.yml", False)
    after = ended(begun(FRESH, one))
    assert after.applied == ended(begun(FRESH, operation(next_operation(wish(), FRESH)))).applied
    assert next_operation(wish(adopt=True), after) == Nothing()
    assert operation(next_operation(wish(adopt=True, variables={"a": 1}), after)).operation == "reconfigure"


def test_a_cluster_that_could_not_be_adopted_is_not_reset() -> None:
    failed = past(wish(adopt=True), "adopt", untouched=True)
    assert next_operation(wish(adopt=True, deleted=True), replace(FRESH, history=(failed,))) == Nothing()


def test_a_cluster_that_is_as_wanted_needs_nothing() -> None:
    assert next_operation(wish(), deployed(wish())) == Nothing()
    assert plan(wish(), deployed(wish())) == ()


def test_nothing_begins_while_it_is_paused() -> None:
    found = wait(next_operation(wish(paused=True), FRESH))
    assert (found.reason, found.message) == ("Paused", "spec.paused is true")
    assert [step.operation for step in plan(wish(paused=True), FRESH)] == ["deploy"]


def test_a_pause_holds_the_deletion_as_well() -> None:
    found = wait(next_operation(wish(paused=True, deleted=True), deployed(wish())))
    assert (found.reason, found.message) == ("Paused", "spec.paused is true; its deletion waits as well")


def test_an_operation_that_runs_is_waited_for() -> None:
    running = begun(FRESH, operation(next_operation(wish(), FRESH)))
    found = wait(next_operation(wish(), running))
    assert (found.reason, found.message) == ("OperationRunning", "deploy runs since 2026-11-23T12:00:00Z")
    assert plan(wish(), running) == ()


@pytest.mark.parametrize("change", [{"version": "1.36.1"}, {"deleted": True}])
def test_an_edit_while_an_operation_runs_counts_after_its_end(change: dict[str, Any]) -> None:
    running = begun(FRESH, operation(next_operation(wish(), FRESH)))
    found = wait(next_operation(wish(**change), running))
    assert found.reason == "OperationRunning"
    assert ("changed since" in found.message) == ("version" in change)
    expected = {"version": "upgrade", "deleted": "reset"}[next(iter(change))]
    assert [step.operation for step in plan(wish(**change), running)] == [expected]


def test_an_object_with_mistakes_waits_for_their_correction() -> None:
    found = wait(next_operation(wish(refused=("spec.version: no such release: use 1.36.3",)), FRESH))
    assert (found.reason, found.message) == ("NotAccepted", "spec.version: no such release: use 1.36.3")
    assert plan(wish(refused=("wrong",)), FRESH) == ()


def test_mistakes_in_an_object_do_not_keep_it_from_being_deleted() -> None:
    one = wish(refused=("wrong",), deleted=True)
    assert operation(next_operation(one, deployed(wish()))).operation == "reset"


def test_missing_machines_are_counted_by_set() -> None:
    found = wait(next_operation(wish(machines=MACHINES[:2]), FRESH))
    assert (found.reason, found.again_seconds) == ("WaitingForMachines", None)
    assert found.message == "set w has 1 of 2 machines: 1 missing"
    found = wait(next_operation(wish(machines=()), FRESH))
    assert found.message == "set cp has 0 of 1 machines: 1 missing; set w has 0 of 2 machines: 2 missing"


def test_missing_machines_that_the_set_names_are_named() -> None:
    named = objects.wanted_set("w", "worker", replicas=2, names=["w-1", "w-9"])
    found = wait(next_operation(wish(CP, named, machines=MACHINES[:2]), FRESH))
    assert found.message == "set w waits for w-9: not there, or not free"


def test_machines_that_are_still_to_leave_are_waited_for() -> None:
    found = wait(next_operation(wish(CP, objects.wanted_set("w", "worker")), FRESH))
    assert found.message == "set w has 2 of 1 machines: 1 still to leave"
    found = wait(next_operation(wish(CP), FRESH))
    assert found.message == (
        "machine w-1 still to leave: there is no set w; machine w-2 still to leave: there is no set w"
    )


def test_machines_in_trouble_are_waited_for() -> None:
    found = wait(next_operation(wish(), replace(FRESH, trouble={"w-2": "no answer at 192.0.2.12:22", "x": "gone"})))
    assert (found.reason, found.message) == ("WaitingForMachines", "machine w-2: no answer at 192.0.2.12:22")


@pytest.mark.parametrize(
    "other",
    [claimed("w-2", "w", uid="another"), claimed("w-2", "w", cluster="another"), claimed("w-2", "w", claim=None)],
)
def test_a_machine_that_somebody_else_has_is_no_host(other: Any) -> None:
    assert wish(machines=(*MACHINES[:2], other)).machines == ("cp-0", "w-1")


def test_a_deleted_cluster_is_reset_and_then_nothing_is_left_to_do() -> None:
    one = wish(deleted=True)
    found = operation(next_operation(one, deployed(wish())))
    assert (found.operation, duty(found).entry, duty(found).disruptive) == ("reset", "reset.yml", True)
    assert found.applies is None
    assert (found.machines, found.sequence) == (("cp-0", "w-1", "w-2"), 2)
    assert next_operation(one, ended(begun(deployed(wish()), found))) == Nothing()


def test_machines_of_a_deployment_that_failed_are_reset_too() -> None:
    one = wish(deleted=True)
    assert operation(next_operation(one, Observed(NOW, 1, history=(past(wish()),)))).operation == "reset"


def test_a_reset_takes_machines_of_sets_that_the_object_has_lost() -> None:
    one = wish(CP, deleted=True)
    assert operation(next_operation(one, deployed(wish()))).machines == ("cp-0", "w-1", "w-2")


def test_a_deleted_cluster_is_never_deployed() -> None:
    assert next_operation(wish(deleted=True), FRESH) == Nothing()


def test_machines_are_left_as_they_are_where_the_object_says_so() -> None:
    one = wish(deleted=True, deletion={"machines": "Leave"})
    assert next_operation(one, deployed(wish())) == Nothing()


@pytest.mark.parametrize(
    ("change", "step", "field"),
    [
        ({"version": "1.36.1"}, "upgrade", "spec.version: 1.36.3 -> 1.36.1"),
        ({"components": {"runc": "1.6.0"}}, "upgrade", "spec.components.runc: 1.5.2 -> 1.6.0"),
        ({"runtime": {"version": "1.7.35"}}, "upgrade", "spec.runtime.version: 2.4.2 -> 1.7.35"),
        (
            {"kubernetes": {"kubelet": {"config": {"maxPods": 50}}}},
            "reconfigure",
            "spec.kubernetes.kubelet.config changed",
        ),
        (
            {"variables": {"cluster_drain_force": True}},
            "reconfigure",
            "spec.variables.cluster_drain_force: none -> True",
        ),
        (
            {"addons": [{"name": "metrics-server"}]},
            "addons",
            "spec.addons[metrics-server].version: none -> 0.9.0",
        ),
    ],
)
def test_a_change_of_a_deployed_cluster_is_carried_out(change: dict[str, Any], step: str, field: str) -> None:
    found = operation(next_operation(wish(**change), deployed(wish())))
    assert (found.operation, found.why, found.sequence) == (step, field, 2)
    assert [(one.operation, one.why) for one in plan(wish(**change), deployed(wish()))] == [(step, field)]
    after = ended(begun(deployed(wish()), found))
    assert after.applied is not None
    assert dict(after.applied.variables) == dict(wish(**change).variables)
    assert next_operation(wish(**change), after) == Nothing()


def test_versions_that_follow_kubernetes_are_not_named_beside_it() -> None:
    (step,) = plan(wish(version="1.35.4"), deployed(wish()))
    assert step.why == "spec.version: 1.36.3 -> 1.35.4"


def test_changes_that_no_operation_has_to_carry_out_need_nothing() -> None:
    for change in (
        {"jobs": {"retries": 5}},
        {"access": "Direct"},
        {"deletion": {"machines": "Leave"}},
        {"playbooks": {"image": "registry:5000/other:1"}},
        {"source": {**objects.SOURCE, "checksums": {"runc/1.5.2": "0" * 64}}},
    ):
        assert next_operation(wish(**change), deployed(wish())) == Nothing(), change


def test_more_and_fewer_machines_of_a_deployed_cluster_are_named() -> None:
    more = wish(CP, objects.wanted_set("w", "worker", replicas=3))
    assert [(one.operation, one.why, one.machines) for one in plan(more, deployed(wish()))] == [
        ("scale", "spec.machineSets[w].replicas: 2 deployed, 3 wanted", ())
    ]
    more = wish(CP, objects.wanted_set("w", "worker", replicas=3), machines=(*MACHINES, claimed("w-3", "w")))
    assert plan(more, deployed(wish()))[0].machines == ("w-3",)
    less = wish(CP, objects.wanted_set("w", "worker", replicas=1))
    assert [(one.operation, one.machines) for one in plan(less, deployed(wish()))] == [("remove-node", ("w-2",))]
    without = wish(CP)
    assert [(one.operation, one.machines) for one in plan(without, deployed(wish()))] == [
        ("remove-node", ("w-1", "w-2"))
    ]


def test_a_named_machine_that_takes_anothers_place_joins_and_the_other_leaves() -> None:
    before = wish(CP, objects.wanted_set("w", "worker", replicas=2, names=["w-1", "w-2"]))
    after = wish(
        CP,
        objects.wanted_set("w", "worker", replicas=2, names=["w-1", "w-3"]),
        machines=(*MACHINES, claimed("w-3", "w")),
    )
    assert [(one.operation, one.machines) for one in plan(after, deployed(before))] == [
        ("remove-node", ("w-2",)),
        ("scale", ("w-3",)),
    ]


def test_a_machine_of_the_cluster_that_is_gone_is_named() -> None:
    found = operation(next_operation(wish(machines=MACHINES[:2]), deployed(wish())))
    assert (found.operation, found.why, found.machines) == (
        "remove-node",
        "w-2 of the cluster: no such Machine",
        ("w-2",),
    )


def test_a_machine_at_another_address_is_named() -> None:
    other = (*MACHINES[:2], claimed("w-2", "w", address="192.0.2.99"))
    found = operation(next_operation(wish(machines=other), deployed(wish())))
    assert (found.operation, found.why) == ("reconfigure", "w-2 has another address: 192.0.2.12 -> 192.0.2.99")


def test_what_is_to_do_comes_in_the_order_of_the_duties() -> None:
    change: dict[str, Any] = {"version": "1.36.1", "addons": [{"name": "metrics-server"}], "variables": {"a": 1}}
    sets = (CP, objects.wanted_set("w", "worker", replicas=2), objects.wanted_set("x", "worker"))
    before = wish(*sets[:2])
    machines = (MACHINES[0], MACHINES[2], claimed("x-1", "x"))
    after = wish(CP, objects.wanted_set("w", "worker", replicas=1), sets[2], machines=machines, **change)
    steps = plan(after, deployed(before))
    assert [(one.operation, one.machines) for one in steps] == [
        ("remove-node", ("w-1",)),
        ("upgrade", ("cp-0", "w-2")),  # its last hop takes the settings on as well
        ("scale", ("x-1",)),
        ("addons", ("cp-0", "w-2", "x-1")),
    ]
    assert steps[1].why == "spec.version: 1.36.3 -> 1.36.1, spec.variables.a: none -> 1"


def test_an_operator_with_a_newer_table_upgrades_nothing_by_itself() -> None:
    before = wish(components={"runc": "1.4.0"}, runtime={"version": "2.3.0"})
    world = deployed(before)
    assert next_operation(wish(applied=world.applied), world) == Nothing()
    assert [s.operation for s in plan(wish(version="1.36.1", applied=world.applied), world)] == ["upgrade"]


def test_sets_and_machines_of_the_examples_fit_together() -> None:
    assert [one["replicas"] for one in (CP, WORKERS)] == [1, 2]
    assert wish().hosts[0].groups == ("control_plane", "etcd", "node")


def test_what_is_gone_of_an_add_on_is_put_back_once() -> None:
    one = wish(addons=[{"name": "metrics-server"}])
    world = replace(deployed(one), missing={"metrics-server": "gone: Deployment kube-system/metrics-server"})
    begins = operation(next_operation(one, world))
    assert (begins.operation, begins.why) == ("addons", "metrics-server: gone: Deployment kube-system/metrics-server")
    assert begins.applies == world.applied
    again = due_of(begins, one, begun(world, begins))
    assert again is not None
    assert next_operation(one, ended(begun(world, begins))) == Nothing()


def test_what_cannot_be_put_back_is_not_tried_for_ever() -> None:
    one = wish(addons=[{"name": "metrics-server"}])
    missing = {"metrics-server": "gone: x"}
    world = replace(deployed(one), missing=missing)
    failed = ended(begun(world, operation(next_operation(one, world))), "failed", "product")
    held = next_operation(one, replace(failed, missing=missing, unsettled=None))
    assert isinstance(held, Wait)
    assert held.reason == WaitReason.FAILED
