"""What happens to a cluster next: a case for every operation and every reason to wait, and the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.api.cluster import CurrentOperation, PastOperation, PendingApproval
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import APPROVE_ANNOTATION, CANCEL_ANNOTATION
from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import (
    DUTIES,
    FIRST_SECONDS,
    LONGEST_SECONDS,
    Duty,
    Nothing,
    delay_seconds,
    due_of,
    next_operation,
    no_phase,
    plan,
    withdrawn,
)
from tests.unit.operator.api import objects
from tests.unit.operator.decide.products import GOOD, known
from tests.unit.operator.decide.seen import seen
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


@pytest.mark.parametrize("name", ["deploy", "clone"])
def test_the_reset_after_a_first_operation_that_failed_is_planned(name: str) -> None:
    deleted = wish(deleted=True)
    failed = past(wish(), name)
    there = Observed(NOW, sequence=1, history=(failed,))
    assert operation(next_operation(deleted, there)).operation == "reset"
    assert [step.operation for step in plan(deleted, there)] == ["reset"]
    only_looked = Observed(NOW, sequence=1, history=(failed.model_copy(update={"untouched": True}),))
    assert plan(deleted, only_looked) == ()
    begins_again = [step.operation for step in plan(wish(), there)]
    assert begins_again == [name], "a failure does not hide what is still to do"


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
            {"variables": {"cluster_api_port": 6446}},
            "reconfigure",
            "spec.variables.cluster_api_port: none -> 6446",
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
        "w-2 of the cluster: the cluster has claimed no Machine of that name",
        ("w-2",),
    )


def test_a_machine_at_another_address_is_named() -> None:
    other = (*MACHINES[:2], claimed("w-2", "w", address="192.0.2.99"))
    found = operation(next_operation(wish(machines=other), deployed(wish())))
    assert (found.operation, found.why) == ("reconfigure", "w-2 has another address: 192.0.2.12 -> 192.0.2.99")


@pytest.mark.parametrize(
    ("families", "why"),
    [
        (["IPv4"], None),
        (["IPv6"], "w-2 has another address: fd00:5::12 -> fd00:5::99"),
        (["IPv4", "IPv6"], "w-2 has another address: fd00:5::12 -> fd00:5::99"),
    ],
)
def test_another_address_of_ipv6_matters_to_a_cluster_that_has_it(families: list[str], why: str | None) -> None:
    def machines(last: str) -> tuple[DeclaredMachine, ...]:
        sets = zip(("cp-0", "w-1", "w-2"), ("cp", "w", "w"), ("fd00:5::10", "fd00:5::11", last), strict=True)
        return tuple(claimed(name, one, ipv6Address=address) for name, one, address in sets)

    network = {"ipFamilies": families}
    world = deployed(wish(machines=machines("fd00:5::12"), network=network))
    found = next_operation(wish(machines=machines("fd00:5::99"), network=network), world)
    assert (operation(found).why if why else found) == (why or Nothing())
    if why:
        applied = operation(found).applies
        assert applied is not None
        assert applied.hosts[2].ipv6_address == "fd00:5::99"


def test_what_needs_no_operation_of_its_own_goes_with_the_next_one() -> None:
    before = deployed(wish())
    gentle = {"drainTimeoutSeconds": 7}
    assert next_operation(wish(maintenance=gentle), before) == Nothing()
    found = operation(next_operation(wish(machines=MACHINES[:2], maintenance=gentle), before))
    assert found.operation == "remove-node"
    assert found.applies is not None
    assert found.applies.variables["cluster_drain_timeout"] == 7


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


POLICY: dict[str, Any] = {"backup": {"beforeDisruption": True, "destination": {"claim": "claim"}}}


def world(*backups: SeenBackup) -> Observed:
    return deployed(wish(), backups=backups)


def upgrading() -> Desired:
    return wish(version="1.36.1", etcd=POLICY, applied=world().applied)


def test_backup_that_is_asked_for_is_taken_when_nothing_else_is_to_do() -> None:
    found = operation(next_operation(wish(), world(seen())))
    assert (found.operation, found.why, found.machines) == ("backup", "EtcdBackup a", ())
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.claim, found.snapshot.file) == ("a", "claim", "guest/a.db")


def test_backup_applies_what_is_applied_and_is_taken_once() -> None:
    before = world(seen())
    after = ended(begun(before, operation(next_operation(wish(), before))))
    assert after.applied == before.applied
    assert isinstance(next_operation(wish(), after), Nothing)


def test_backup_waits_for_an_operation_that_runs() -> None:
    first = operation(next_operation(wish(), Observed(world().now)))
    running = begun(replace(world(seen()), applied=None), first)
    assert wait(next_operation(wish(), running)).reason == "OperationRunning"


def test_edit_during_a_backup_is_said_and_none_is_not() -> None:
    running = begun(world(seen()), operation(next_operation(wish(), world(seen()))))
    assert "changed since" not in wait(next_operation(wish(), running)).message
    assert "changed since" in wait(next_operation(wish(variables={"a": 1}), running)).message


def test_failure_of_one_backup_holds_back_only_itself() -> None:
    one = wish()
    both = world(seen("a"), seen("b"))
    both = ended(begun(both, operation(next_operation(one, both))), "failed", "product")
    assert wait(next_operation(one, both)).reason == "Failed"
    other = operation(next_operation(one, replace(both, backups=(seen("b"),))))
    assert other.snapshot is not None
    assert other.snapshot.backup == "b"


def test_upgrade_waits_for_the_backup_before_it_to_be_made() -> None:
    found = wait(next_operation(upgrading(), world()))
    assert (found.reason, found.message) == (
        "BackupFirst",
        "a backup comes before the upgrade; an EtcdBackup of it is made",
    )
    assert [step.operation for step in plan(upgrading(), world())][:2] == ["backup", "upgrade"]


def test_backup_before_an_upgrade_comes_before_one_that_a_person_asked_for() -> None:
    found = operation(next_operation(upgrading(), world(seen("asked"), seen("own", before=upgrading().digest))))
    assert found.snapshot is not None
    assert found.snapshot.backup == "own"


def test_upgrade_follows_once_its_backup_is_verified() -> None:
    taken = seen("own", "verified", before=upgrading().digest)
    assert [step.operation for step in plan(upgrading(), world(taken))] == ["upgrade"]


def test_backup_before_an_earlier_wish_does_not_count() -> None:
    taken = seen("own", "verified", before=wish(version="1.36.1", retry="1").digest)
    assert wait(next_operation(upgrading(), world(taken))).reason == "BackupFirst"


def test_upgrade_does_not_follow_a_backup_that_failed() -> None:
    broken = seen("own", "failed", said="no member is healthy", before=upgrading().digest)
    found = wait(next_operation(upgrading(), world(broken)))
    assert found.reason == "Failed"
    assert "no member is healthy" in found.message
    assert "cluster.vmatrix.dev/retry" in found.message


def test_upgrade_says_what_its_backup_lacks() -> None:
    lacking = seen("own", "blocked", said="there is no claim x", before=upgrading().digest)
    assert "EtcdBackup own: there is no claim x" in wait(next_operation(upgrading(), world(lacking))).message


def test_no_backup_comes_before_an_upgrade_that_does_not_want_one() -> None:
    assert [step.operation for step in plan(wish(version="1.36.1", applied=world().applied), world())] == ["upgrade"]


BEFORE = wish(version="1.36.1")


def upgrade(approve: int | None = None, **spec: Any) -> Desired:
    """Return the wish for an upgrade, with an approval."""
    one = wish(version="1.36.3", approval="Manual", **spec)
    annotations = {APPROVE_ANNOTATION: str(approve)} if approve is not None else {}
    metadata = one.wish.metadata.model_copy(update={"annotations": annotations})
    return replace(one, wish=one.wish.model_copy(update={"metadata": metadata}))


def asked(one: Desired, world: Observed) -> PendingApproval:
    found = wait(next_operation(one, world))
    assert found.reason == "WaitingForApproval"
    assert found.approval is not None
    assert f"{APPROVE_ANNOTATION}={found.approval.sequence}" in found.message
    return found.approval


def test_a_disruptive_operation_begins_with_the_number_that_was_approved() -> None:
    pending = asked(upgrade(), deployed(BEFORE))
    assert (pending.sequence, pending.operation) == (2, "upgrade")
    world = replace(deployed(BEFORE), approval=pending)
    assert asked(upgrade(), world) == pending
    found = operation(next_operation(upgrade(2), world))
    assert (found.operation, found.sequence) == ("upgrade", 2)
    after = ended(begun(world, found))
    assert after.approval is None
    assert next_operation(upgrade(2), after) == Nothing()


def test_a_number_that_was_approved_before_it_was_asked_for_is_left_out() -> None:
    pending = asked(upgrade(2), deployed(BEFORE))
    assert pending.sequence == 3
    assert asked(upgrade(2), replace(deployed(BEFORE), approval=pending)) == pending


def test_a_number_that_was_cancelled_before_it_was_known_is_left_out() -> None:
    one = wish(version="1.36.3")
    metadata = one.wish.metadata.model_copy(update={"annotations": {CANCEL_ANNOTATION: "2"}})
    one = replace(one, wish=one.wish.model_copy(update={"metadata": metadata}))
    assert operation(next_operation(one, deployed(BEFORE))).sequence == 3


def test_what_is_not_to_be_done_any_more_is_withdrawn() -> None:
    world = replace(deployed(BEFORE), approval=asked(upgrade(), deployed(BEFORE)))
    assert not withdrawn(upgrade(), world)
    taken_back = wish(version="1.36.1", approval="Manual")
    assert withdrawn(taken_back, world)
    for holds in (replace(taken_back, refused=("wrong",)), wish(version="1.36.1", paused=True)):
        assert not withdrawn(holds, world), "nothing is decided meanwhile"


def test_something_else_to_do_has_another_number() -> None:
    world = replace(deployed(BEFORE), approval=asked(upgrade(), deployed(BEFORE)))
    other = upgrade(2, variables={"a": 1})
    pending = asked(other, world)
    assert pending.sequence == 3
    assert "; 2 was approved, which is another operation" in wait(next_operation(other, world)).message
    world = replace(world, approval=pending)
    assert operation(next_operation(upgrade(3, variables={"a": 1}), world)).sequence == 3


def test_a_backup_meanwhile_leaves_the_number_as_it_is() -> None:
    pending = asked(upgrade(), deployed(BEFORE))
    world = replace(deployed(BEFORE), approval=pending, backups=(seen("a"),))
    backup = operation(next_operation(upgrade(), world))
    assert (backup.operation, backup.sequence) == ("backup", 3)
    world = ended(begun(world, backup))
    assert (world.approval, world.sequence) == (pending, 3)
    found = operation(next_operation(upgrade(2), world))
    assert (found.operation, found.sequence) == ("upgrade", 2)
    assert ended(begun(world, found)).sequence == 3


def test_retries_need_no_other_approval() -> None:
    world = replace(deployed(BEFORE), approval=asked(upgrade(), deployed(BEFORE)))
    world = ended(begun(world, operation(next_operation(upgrade(2), world))), "failed", "infra")
    world = replace(world, now=world.now.replace(hour=13))
    found = operation(next_operation(upgrade(2), world))
    assert (found.sequence, found.attempt) == (2, 2)


def test_what_disrupts_nothing_and_a_deletion_need_no_approval() -> None:
    addons = wish(approval="Manual", addons=[{"name": "metrics-server"}])
    assert operation(next_operation(addons, deployed(wish()))).operation == "addons"
    assert operation(next_operation(wish(approval="Manual", deleted=True), deployed(wish()))).operation == "reset"


THEIRS = {"product": {"configMap": "theirs"}}


def theirs(text: str = GOOD, **spec: Any) -> Desired:
    """Return a wish for a cluster of another team's playbooks."""
    return wish(product=known(text), playbooks=THEIRS, **spec)


def test_with_our_own_playbooks_there_is_every_phase() -> None:
    assert no_phase("upgrade", wish()) is None


def test_a_phase_that_the_product_has_begins() -> None:
    assert no_phase("deploy", theirs()) is None
    assert operation(next_operation(theirs(), Observed(NOW))).operation == "deploy"


def test_a_phase_that_it_lacks_is_refused_in_words_before_anything_begins() -> None:
    held = next_operation(theirs(GOOD.replace("deploy: {", "other: {")), Observed(NOW))
    assert isinstance(held, Wait)
    assert held.reason == WaitReason.NO_SUCH_PHASE
    assert held.message.startswith(
        "spec.playbooks.product: their playbooks has no phase deploy, which deploy needs; it has other, scale-out"
    )
    assert "put the changed fields back" in held.message


def test_what_only_the_cluster_needs_is_refused_when_it_is_due() -> None:
    before = theirs(version="1.36.1")
    held = next_operation(theirs(version="1.36.3"), deployed(before))
    assert isinstance(held, Wait)
    assert (held.reason, "no phase upgrade" in held.message) == (WaitReason.NO_SUCH_PHASE, True)


def test_a_deletion_never_runs_our_reset_on_what_others_made() -> None:
    gone = replace(theirs(deleted=True), product=None, refused=("spec.playbooks.product: no such ConfigMap",))
    held = next_operation(gone, deployed(theirs()))
    assert isinstance(held, Wait)
    assert (held.reason, held.message) == (WaitReason.NOT_ACCEPTED, "spec.playbooks.product: no such ConfigMap")
    lacks = next_operation(theirs(GOOD.replace("reset:", "wipe:"), deleted=True), deployed(theirs()))
    assert isinstance(lacks, Wait)
    assert "set spec.deletion.machines to Leave" in lacks.message


def test_the_file_is_one_of_the_inputs() -> None:
    assert theirs().digest != theirs(GOOD + "# a word\n").digest
    assert theirs().digests == theirs(GOOD + "# a word\n").digests


def after(*history: PastOperation) -> Observed:
    """Return the world after these operations, the latest first."""
    return Observed(NOW, sequence=max(one.sequence for one in history), history=history)


def test_a_failure_of_the_product_is_final_for_these_inputs() -> None:
    failed = past(
        wish(), task="kubeadm : init", host="cp-0", summary="exit status 1", hint="look at the log", ago=86400
    )
    found = wait(next_operation(wish(), after(failed)))
    assert (found.reason, found.again_seconds) == ("Failed", None)
    assert found.message == (
        "deploy failed, product to blame at task 'kubeadm : init' on cp-0: exit status 1; look at the log; change the "
        "object, or give annotation cluster.vmatrix.dev/retry another value, to try again"
    )


@pytest.mark.parametrize("blame", ["product", "user", "harness", None])
def test_only_the_infrastructures_failures_are_tried_again_by_themselves(blame: str | None) -> None:
    assert wait(next_operation(wish(), after(past(wish(), blame=blame, ago=86400)))).reason == "Failed"


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.36.1"},
        {"retry": "1"},
        {"jobs": {"deadlineSeconds": 7200}},
        {"playbooks": {"image": "registry:5000/fixed:2"}},
        {"source": {"mirror": "http://192.0.2.1:8080", "registry": "192.0.2.1:5000"}},
        {"variables": {"cluster_timeout_scale": 3}},
    ],
)
def test_other_inputs_begin_anew(change: dict[str, Any]) -> None:
    one = operation(next_operation(wish(**change), after(past(wish()))))
    assert (one.operation, one.sequence, one.attempt) == ("deploy", 2, 1)


def test_another_machine_or_another_login_is_another_input() -> None:
    failed = after(past(wish(CP, machines=(claimed("cp-0", "cp"),))))
    other = wish(CP, machines=(claimed("cp-0", "cp", user="admin"),))
    assert operation(next_operation(other, failed)).attempt == 1
    other = wish(CP, machines=(claimed("cp-7", "cp"),))
    assert operation(next_operation(other, failed)).attempt == 1


def test_a_wish_that_failed_and_comes_back_is_remembered() -> None:
    history = (past(wish(version="1.36.1"), sequence=2), past(wish(), sequence=1))
    assert wait(next_operation(wish(), after(*history))).reason == "Failed"


def test_a_failure_of_the_infrastructure_is_tried_again_after_a_delay() -> None:
    failed = past(wish(), blame="infra", summary="no route to host", ago=10)
    found = wait(next_operation(wish(), after(failed)))
    assert (found.reason, found.again_seconds) == ("RetryLater", FIRST_SECONDS - 10)
    assert found.message == "deploy failed, infra to blame: no route to host; attempt 2 of 3 follows"
    one = operation(next_operation(wish(), after(past(wish(), blame="infra", ago=FIRST_SECONDS))))
    assert (one.sequence, one.attempt) == (1, 2)


def test_an_executor_that_was_stopped_is_tried_again() -> None:
    stopped = past(wish(), blame=None, outcome="interrupted", ago=FIRST_SECONDS)
    assert operation(next_operation(wish(), after(stopped))).attempt == 2


def test_the_delay_grows_with_each_attempt_up_to_a_limit() -> None:
    assert [delay_seconds(n) for n in (1, 2, 3, 4, 5, 6, 99)] == [
        30,
        60,
        120,
        240,
        480,
        LONGEST_SECONDS,
        LONGEST_SECONDS,
    ]


def test_attempts_end_with_the_retries_of_the_object() -> None:
    def third(retries: int) -> Observed:
        one = wish(jobs={"retries": retries})
        return after(*(past(one, blame="infra", attempt=n, ago=86400) for n in (3, 2, 1)))

    found = wait(next_operation(wish(jobs={"retries": 2}), third(2)))
    assert found.reason == "Failed"
    assert found.message.startswith("deploy failed 3 times, infra to blame")
    assert operation(next_operation(wish(jobs={"retries": 3}), third(3))).attempt == 4
    assert wait(next_operation(wish(jobs={"retries": 0}), after(past(wish(), blame="infra")))).reason == "Failed"


def test_a_retry_by_hand_counts_attempts_from_the_first() -> None:
    tired = tuple(past(wish(), blame="infra", attempt=n, ago=86400) for n in (3, 2, 1))
    one = operation(next_operation(wish(retry="again"), after(*tired)))
    assert (one.sequence, one.attempt) == (2, 1)


def test_a_retry_after_another_wish_has_a_number_of_its_own() -> None:
    history = (past(wish(version="1.36.1"), sequence=2), past(wish(), blame="infra", sequence=1, ago=86400))
    one = operation(next_operation(wish(), after(*history)))
    assert (one.sequence, one.attempt) == (3, 2)


def test_a_retry_after_an_operation_that_was_given_up_has_a_number_of_its_own() -> None:
    world = Observed(NOW, sequence=2, history=(past(wish(), blame="infra", sequence=1, ago=86400),))
    one = operation(next_operation(wish(), world))
    assert (one.sequence, one.attempt) == (3, 2)


def test_missing_machines_come_before_the_delay_and_before_a_failure() -> None:
    for blame in ("infra", "product"):
        world = replace(after(past(wish(), blame=blame)), trouble={"w-1": "no answer"})
        assert wait(next_operation(wish(), world)).reason == "WaitingForMachines"


def test_a_clock_that_was_set_back_does_not_make_the_delay_longer() -> None:
    found = wait(next_operation(wish(), after(past(wish(), blame="infra", ago=-86400))))
    assert found.again_seconds == FIRST_SECONDS


def test_a_reset_that_failed_says_how_to_delete_without_it() -> None:
    one = wish(deleted=True)
    world = deployed(wish())
    world = replace(world, sequence=2, history=(past(one, "reset", sequence=2), *world.history))
    found = wait(next_operation(one, world))
    assert found.reason == "Failed"
    assert found.message.endswith("(or set spec.deletion.machines to Leave)")
