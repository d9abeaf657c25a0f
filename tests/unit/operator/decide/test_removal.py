"""Which machines leave now, which later, and when a cluster is to be recovered instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation
from harness.operator.decide.removal import majority, most_at_once
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.seen import seen
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


LOST = {"p-1": GONE, "p-2": GONE}


def test_without_a_majority_a_person_names_the_backup_to_restore() -> None:
    world = replace(deployed(planes(3)), lost=LOST, backups=(seen("sunday", "verified"),))
    found = wait(next_operation(planes(3), world))
    assert (found.reason, found.message) == (
        "RestoreNotNamed",
        "etcd has lost its majority: name the EtcdBackup to restore in spec.etcd.restoreFrom; "
        "the newest verified one is sunday",
    )


@pytest.mark.parametrize("known", [{"lost": LOST}, {"silent": frozenset(LOST)}])
def test_a_cluster_is_recovered_from_the_backup_that_is_named(known: dict[str, Any]) -> None:
    one = planes(3, wanted=1, etcd={"restoreFrom": "sunday"})
    world = replace(deployed(planes(3)), backups=(seen("sunday", "verified"),), **known)
    found = operation(next_operation(one, world))
    assert (found.operation, found.machines) == ("recover", ("p-1", "p-2"))
    assert found.snapshot is not None
    assert found.snapshot.backup == "sunday"
    after = ended(begun(world, found))
    assert after.applied is not None
    assert (after.applied.machines, after.applied.restored) == (("p-0",), "sunday")
    assert next_operation(one, after) == Nothing()


@pytest.mark.parametrize("known", [{}, {"lost": {"p-2": GONE}}])
def test_a_recovery_waits_until_it_is_known_that_all_of_the_machines_are_lost(known: dict[str, Any]) -> None:
    one = planes(3, wanted=1, etcd={"restoreFrom": "sunday"})
    world = replace(deployed(planes(3)), backups=(seen("sunday", "verified"),), **known)
    found = wait(next_operation(one, world))
    assert found.reason == "MajorityAtRisk"
    assert found.message.endswith("from spec.etcd.restoreFrom once all of these machines are known to be lost")


def test_a_backup_is_not_restored_twice() -> None:
    world = deployed(planes(3))
    assert world.applied is not None
    before = world.applied.model_copy(update={"restored": "sunday"})
    world = replace(world, lost=LOST, applied=before, backups=(seen("sunday", "verified"),))
    found = wait(next_operation(planes(3, etcd={"restoreFrom": "sunday"}), world))
    assert "sunday was restored already" in found.message


def test_a_cluster_whose_control_planes_are_all_lost_cannot_be_recovered() -> None:
    world = replace(deployed(planes(1)), lost={"p-0": GONE})
    assert wait(next_operation(planes(1, etcd={"restoreFrom": "sunday"}), world)).reason == "NotRecoverable"
