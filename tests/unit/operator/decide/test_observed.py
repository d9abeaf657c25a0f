"""What the objects of a cluster say of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.machine import DeclaredMachine, MachineCertificates, MachineSettings
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import CHECKS, Observed, begun, ended, observed, trouble_of
from harness.operator.decide.operations import DUTIES, ETCD_DUTIES, Nothing, next_operation
from tests.unit.operator.api.objects import KUBEVIRT, wanted_set
from tests.unit.operator.decide.wishes import CP, MACHINES, NOW, claimed, deployed, operation, past, wait, wish
from tests.unit.pages import ROOT


def machine(status: str | None = None, message: str = "", **metadata: Any) -> DeclaredMachine:
    """Return a Machine with a condition Reachable."""
    one = claimed("m-1", "cp").model_dump(by_alias=True)
    one["metadata"] |= metadata
    if status is not None:
        condition = {"type": "Reachable", "status": status, "reason": "NoAnswer", "message": message}
        one["status"]["conditions"] = [{**condition, "lastTransitionTime": "2026-11-23T11:00:00Z"}]
    return DeclaredMachine.model_validate(one)


@pytest.mark.parametrize(
    ("given", "trouble"),
    [
        (machine(), {}),
        (machine("True"), {}),
        (machine("False", "no answer at 192.0.2.11:22"), {"m-1": "no answer at 192.0.2.11:22"}),
        (machine("Unknown"), {"m-1": "NoAnswer"}),
        (machine("True", deletionTimestamp="2026-11-23T11:00:00Z"), {"m-1": "it is being deleted"}),
    ],
)
def test_machines_that_cannot_be_used_have_trouble(given: DeclaredMachine, trouble: dict[str, str]) -> None:
    assert observed(None, [given], NOW).trouble == trouble


def said(kind: str, status: str, reason: str, message: str = "") -> DeclaredMachine:
    """Return a Machine with one condition."""
    one = claimed("m-1", "cp").model_dump(by_alias=True)
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    one["status"]["conditions"] = [{**condition, "lastTransitionTime": "2026-11-23T11:00:00Z"}]
    return DeclaredMachine.model_validate(one)


def test_a_machine_is_lost_only_where_the_infrastructure_says_that_it_is_gone() -> None:
    assert observed(None, [said("InfrastructureReady", "False", "Lost", "no VM m-1")], NOW).lost == {"m-1": "no VM m-1"}
    for other in (said("InfrastructureReady", "False", "Stopped"), said("InfrastructureReady", "True", "Lost")):
        assert observed(None, [other], NOW).lost == {}
    assert observed(None, [said("Reachable", "False", "Lost")], NOW).lost == {}


def test_it_is_known_when_a_machine_was_lost_and_which_ones_are_ill() -> None:
    lost = observed(None, [said("InfrastructureReady", "False", "Lost", "no VM m-1")], NOW)
    assert {name: at.isoformat() for name, at in lost.lost_at.items()} == {"m-1": "2026-11-23T11:00:00+00:00"}
    assert lost.ill == {"m-1": "no VM m-1"}
    stopped = observed(None, [said("InfrastructureReady", "False", "Stopped")], NOW)
    assert (stopped.lost_at, stopped.ill) == ({}, {"m-1": "Stopped"})
    assert observed(None, [said("Answering", "False", "NoAnswer")], NOW).ill == {"m-1": "NoAnswer"}
    for fine in (said("Answering", "Unknown", "KeyMissing"), said("NodeReady", "False", "KubeletNotReady")):
        assert observed(None, [fine], NOW).ill == {}


def test_what_was_changed_on_a_machine_and_what_takes_its_place_is_seen() -> None:
    changed = looked_into(said("SettingsAsApplied", "False", "Changed", "/etc/x changed"))
    assert observed(ENDED, [changed], NOW).changed == {"m-1": "/etc/x changed"}
    assert observed(ENDED, [looked_into(said("SettingsAsApplied", "False", "NotPutBack"))], NOW).changed == {}
    annotated = machine("True", annotations={"cluster.vmatrix.dev/replace": "bad disk"})
    assert observed(None, [annotated], NOW).replace == {"m-1": "bad disk"}
    deleted = machine("True", deletionTimestamp="2026-11-23T11:00:00Z")
    assert observed(None, [deleted], NOW).deleted == {"m-1"}


def looked_into(one: DeclaredMachine, after: str = "1-1", first: str | None = None) -> DeclaredMachine:
    """Return a Machine that somebody looked into after an operation, with the date of its first certificate."""
    look = {"settings": MachineSettings(seen=after), "certificates": MachineCertificates(first_expiry=first)}
    return one.model_copy(update={"status": one.status.model_copy(update=look)})


ENDED = DeclaredCluster.model_validate(
    {"metadata": {"name": "guest"}, "status": {"history": [past(wish()).model_dump(by_alias=True)]}}
)


def test_what_was_seen_before_an_operation_ended_is_old() -> None:
    changed = said("SettingsAsApplied", "False", "Changed", "/etc/x changed")
    dated = looked_into(changed, "0-1", first="2026-12-01T00:00:00Z")
    assert observed(ENDED, [changed, dated], NOW).changed == {}
    assert observed(ENDED, [changed, dated], NOW).expires is None


def test_the_first_certificate_of_all_machines_counts() -> None:
    dates = ("2026-12-03T00:00:00Z", "2026-12-01T00:00:00Z", None)
    machines = [looked_into(machine(), first=date) for date in dates]
    assert observed(ENDED, machines, NOW).expires == datetime(2026, 12, 1, tzinfo=UTC)
    assert observed(ENDED, machines[2:], NOW).expires is None


def test_what_is_gone_of_an_add_on_counts_until_the_next_operation_has_ended() -> None:
    gone = {"name": "metrics-server", "ready": False, "reason": "Missing", "message": "gone: x", "sequence": 3}
    late = {"name": "local-path-provisioner", "ready": False, "reason": "NotReady", "message": "y"}

    def seen(sequence: int, *, running: bool = False) -> Observed:
        status: dict[str, Any] = {"sequence": sequence, "addons": [gone, late]}
        status |= {"operation": {"sequence": sequence, "operation": "addons"}} if running else {}
        return observed(DeclaredCluster.model_validate({"metadata": {"name": "guest"}, "status": status}), (), NOW)

    assert seen(3).missing == {"metrics-server": "gone: x"}
    assert seen(4, running=True).missing == {"metrics-server": "gone: x"}
    assert seen(4).missing == ended(seen(4, running=True)).missing == {}


def test_what_is_decided_survives_the_status_of_the_cluster() -> None:
    running = begun(Observed(NOW), operation(next_operation(wish(), Observed(NOW))))
    for world in (running, ended(running), ended(running, "failed", "infra"), deployed(wish())):
        status = {
            "sequence": world.sequence,
            "operation": world.running.model_dump(by_alias=True) if world.running is not None else None,
            "applied": world.applied.model_dump(by_alias=True) if world.applied is not None else None,
            "unsettled": world.unsettled.model_dump(by_alias=True) if world.unsettled is not None else None,
            "history": [one.model_dump(by_alias=True) for one in world.history],
        }
        cluster = DeclaredCluster.model_validate({"metadata": {"name": "guest"}, "status": status})
        assert observed(cluster, (), NOW) == world


def test_something_is_deployed_until_a_reset_has_succeeded() -> None:
    assert not Observed(NOW).touched
    assert deployed(wish()).touched
    assert Observed(NOW, history=(past(wish()),)).touched
    assert Observed(NOW, history=(past(wish(), "reset"), past(wish()))).touched
    assert not Observed(NOW, history=(past(wish(), "reset", outcome="succeeded"), past(wish()))).touched


UP = ("Reachable", "True", "LoggedIn")
TROUBLE: dict[str, tuple[bool, tuple[tuple[str, str, str], ...], str]] = {
    "a made machine of which nothing is known": (True, (), "it is not made yet"),
    "a made machine on its way": (True, (("InfrastructureReady", "False", "ImportingImage"),), "ImportingImage"),
    "a made machine that nobody has logged in to": (True, (("InfrastructureReady", "True", "Running"),), "nobody"),
    "a made machine that is not bare": (
        True,
        (("InfrastructureReady", "True", "Running"), UP, ("Empty", "False", "NotEmpty")),
        "NotEmpty",
    ),
    "a given machine that was stopped": (False, (UP, ("InfrastructureReady", "False", "Stopped")), "Stopped"),
    "a given machine that nothing is known of": (False, (UP, ("InfrastructureReady", "Unknown", "Silent")), ""),
    "a given machine": (False, (UP,), ""),
}


@pytest.mark.parametrize("case", TROUBLE)
def test_a_machine_that_is_not_there_is_waited_for_with_its_own_words(case: str) -> None:
    made, conditions, said = TROUBLE[case]
    found = claimed("m-1", "cp").model_dump(by_alias=True, exclude_none=True)
    if made:
        del found["spec"]["address"]
        found["spec"]["kubevirt"] = KUBEVIRT
    moment = "2026-01-01T00:00:00Z"
    found["status"] = {
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": moment}
            for kind, status, reason in conditions
        ]
    }
    trouble = trouble_of(DeclaredMachine.model_validate(found))
    assert trouble.startswith(said)
    assert bool(trouble) is bool(said)


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
    entry = next(duty.entry for duty in (*DUTIES, *ETCD_DUTIES) if duty.operation == operation)
    names = [play["name"] for play in plays(entry)]
    assert tuple(names[: len(CHECKS[operation])]) == CHECKS[operation]
    assert not set(CHECKS[operation]) & set(names[len(CHECKS[operation]) :])
