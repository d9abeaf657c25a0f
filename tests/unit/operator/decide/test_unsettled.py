"""What operations leave behind that do not succeed, and what puts it right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import DUTIES, Nothing, next_operation
from harness.operator.decide.unsettled import CHECKS
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.wishes import CP, MACHINES, NOW, claimed, deployed, operation, wait, wish
from tests.unit.pages import ROOT

BEFORE = wish(version="1.36.1")
MORE = wish(CP, wanted_set("w", "worker", replicas=3), machines=(*MACHINES, claimed("w-3", "w")))
LESS = wish(CP, wanted_set("w", "worker", replicas=1))


def failed(one: Desired, world: Observed, outcome: str = "failed") -> Observed:
    """Return the world after the next operation of a wish has begun and failed by the product's fault."""
    return ended(begun(world, operation(next_operation(one, world))), outcome, "product")


def does(one: Desired, world: Observed) -> list[tuple[str, tuple[str, ...]]]:
    """Return the operations that follow until nothing is to do, each with its machines; all succeed."""
    done = []
    while not isinstance(verdict := next_operation(one, world), Nothing):
        found = operation(verdict)
        done.append((found.operation, found.machines))
        world = ended(begun(world, found))
    assert world.unsettled is None
    return done


ALL = ("cp-0", "w-1", "w-2")


@pytest.mark.parametrize("outcome", ["failed", "interrupted", "cancelled"])
def test_an_upgrade_that_is_taken_back_half_way_is_put_right_by_reconfigure(outcome: str) -> None:
    world = failed(wish(version="1.36.3"), deployed(BEFORE), outcome)
    assert world.unsettled is not None
    assert (world.unsettled.parts, world.unsettled.why) == (
        ("version", "source", "settings"),
        f"upgrade 2 {outcome}",
    )
    back = operation(next_operation(BEFORE, world))
    assert (back.operation, back.why) == ("reconfigure", f"machines may differ since upgrade 2 {outcome}")
    assert back.applies is not None
    assert back.applies.version == "1.36.1"
    assert does(BEFORE, world) == [("reconfigure", ALL)]


def test_an_upgrade_that_is_wished_still_goes_on_after_an_edit_of_its_inputs() -> None:
    one = wish(version="1.36.3")
    world = failed(one, deployed(BEFORE))
    assert wait(next_operation(one, world)).reason == "Failed"
    assert does(wish(version="1.36.3", retry="1"), world) == [("upgrade", ALL)]


def test_a_reconfiguration_that_is_taken_back_is_put_back_on_all_machines() -> None:
    world = failed(wish(variables={"a": 1}), deployed(wish()))
    assert does(wish(), world) == [("reconfigure", ALL)]


def test_a_machine_that_joined_half_is_taken_out_when_it_is_not_wished_any_more() -> None:
    world = failed(MORE, deployed(wish()))
    kept = replace(wish(), hosts=MORE.hosts)
    assert does(kept, world) == [("remove-node", ("w-3",))]
    first = operation(next_operation(kept, world))
    assert first.applies is not None
    assert first.applies.machines == ALL


def test_a_machine_that_joined_half_joins_again_when_it_is_wished() -> None:
    world = failed(MORE, deployed(wish()))
    assert does(replace(MORE, inputs={**MORE.inputs, "retry": "1"}), world) == [("scale", ("w-3",))]


def test_a_machine_that_left_half_leaves_and_joins_anew_when_it_is_wished_again() -> None:
    world = failed(LESS, deployed(wish()))
    assert does(replace(wish(), inputs={**wish().inputs, "retry": "1"}), world) == [
        ("remove-node", ("w-2",)),
        ("scale", ("w-2",)),
    ]


def test_machines_of_a_deployment_that_failed_begin_anew_when_one_is_to_leave() -> None:
    world = failed(wish(), Observed(NOW))
    assert [host.machine for host in (world.unsettled.hosts if world.unsettled else ())] == list(ALL)
    assert does(replace(LESS, hosts=tuple(h for h in LESS.hosts if h.machine != "w-2")), world) == [
        ("reset", ALL),
        ("deploy", ("cp-0", "w-1")),
    ]
    assert does(wish(retry="1"), world) == [("deploy", ALL)]


def test_what_is_put_right_by_another_operation_counts() -> None:
    world = failed(wish(addons=[{"name": "metrics-server"}]), deployed(wish()))
    assert world.unsettled is not None
    assert world.unsettled.parts == ("addons",)
    assert does(wish(), world) == [("addons", ALL)]
    assert does(wish(variables={"a": 1}), world) == [("reconfigure", ALL)]  # it applies the add-ons, too


def test_failures_add_up() -> None:
    world = failed(MORE, failed(wish(variables={"a": 1}), deployed(wish())))
    assert world.unsettled is not None
    assert set(world.unsettled.parts) == {"version", "source", "settings"}
    again: Any = replace(MORE, inputs={**MORE.inputs, "retry": "2"})
    assert does(again, world) == [("reconfigure", ALL), ("scale", ("w-3",))]


def plays(name: str) -> list[dict[str, Any]]:
    """Return the plays of a playbook with those that it imports, in order."""
    found: list[dict[str, Any]] = []
    for play in yaml.safe_load((ROOT / "playbooks" / name).read_text(encoding="utf-8")):
        imported = play.get("ansible.builtin.import_playbook")
        found += plays(imported) if imported else [play]
    return found


@pytest.mark.parametrize("operation", CHECKS)
def test_plays_that_only_check_are_the_first_of_the_playbook(operation: str) -> None:
    entry = next(duty.entry for duty in DUTIES if duty.operation == operation)
    names = [play["name"] for play in plays(entry)]
    assert tuple(names[: len(CHECKS[operation])]) == CHECKS[operation]
    assert not set(CHECKS[operation]) & set(names[len(CHECKS[operation]) :])
