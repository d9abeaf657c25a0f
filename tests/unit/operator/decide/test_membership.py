"""Which machines leave now, which later, and when a cluster is to be recovered instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.decide.desired import Desired
from harness.operator.decide.membership import majority, most_at_once
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.wishes import claimed, deployed, operation, wait, wish

GONE = "its VirtualMachine is gone"


def planes(count: int, *, wanted: int = 0, extra: int = 0, **spec: Any) -> Desired:
    """Return a wish for control planes p-0, p-1 and so on, of which more may be claimed than are wanted."""
    machines = tuple(claimed(f"p-{number}", "cp") for number in range(count + extra))
    return wish(wanted_set("cp", "control-plane", "worker", replicas=wanted or count), machines=machines, **spec)


def story(one: Desired, world: Observed) -> list[tuple[str, tuple[str, ...]]]:
    """Return what is done until something is waited for or nothing is to do."""
    done = []
    while not isinstance(verdict := next_operation(one, world), Nothing) and hasattr(verdict, "operation"):
        found = operation(verdict)
        done.append((found.operation, found.machines))
        world = ended(begun(world, found))
    return done


@pytest.mark.parametrize(
    ("members", "left", "most"), [(1, 1, 1), (2, 2, 1), (3, 2, 1), (4, 3, 1), (5, 3, 2), (7, 4, 3)]
)
def test_a_majority_is_more_than_half(members: int, left: int, most: int) -> None:
    assert (majority(members), most_at_once(members)) == (left, most)


def test_as_many_members_leave_at_once_as_the_playbook_takes_out() -> None:
    five = deployed(planes(5))
    assert story(planes(5, wanted=3), five) == [("remove-node", ("p-3", "p-4"))]
    assert story(planes(5, wanted=1), five) == [
        ("remove-node", ("p-3", "p-4")),
        ("remove-node", ("p-2",)),
        ("remove-node", ("p-1",)),
    ]


def test_members_whose_machines_are_deleted_are_replaced_one_by_one() -> None:
    one = planes(3, extra=2)
    world = replace(deployed(planes(3)), deleted=frozenset({"p-0", "p-1"}))
    assert story(one, world) == [
        ("remove-node", ("p-1",)),
        ("scale", ("p-3", "p-4")),
        ("remove-node", ("p-0",)),
    ]


def test_a_member_that_is_to_be_replaced_stays_while_its_place_cannot_be_filled() -> None:
    world = replace(deployed(planes(3)), deleted=frozenset({"p-0", "p-1"}))
    assert story(planes(3), world) == [("remove-node", ("p-1",))]


def test_the_only_control_plane_leaves_after_another_one_has_joined() -> None:
    world = replace(deployed(planes(1)), replace={"p-0": "bad disk"})
    assert story(planes(1, extra=1), world) == [("scale", ("p-1",)), ("remove-node", ("p-0",))]
    assert wait(next_operation(planes(1), world)).reason == "WaitingForMachines"


def test_a_lost_member_leaves_at_once_and_another_one_joins() -> None:
    world = replace(deployed(planes(3)), lost={"p-0": GONE})
    assert story(planes(3, extra=1), world) == [("remove-node", ("p-0",)), ("scale", ("p-3",))]


def test_machines_that_an_earlier_operator_deployed_are_members() -> None:
    world = deployed(planes(3))
    assert world.applied is not None
    world = replace(world, applied=world.applied.model_copy(update={"hosts": ()}))
    assert next_operation(planes(3), world) == Nothing()
    assert story(planes(3, wanted=2), world) == [("remove-node", ("p-2",))]
