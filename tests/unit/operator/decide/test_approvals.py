"""Numbers that people approve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.operator.api.cluster import PendingApproval
from harness.operator.api.resources import APPROVE_ANNOTATION, CANCEL_ANNOTATION
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation, withdrawn
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.wishes import deployed, operation, wait, wish

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
