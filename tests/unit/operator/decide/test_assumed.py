"""Machines as they would be claimed."""

from __future__ import annotations

from typing import Any

from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine
from harness.operator.decide.assumed import claimed, invented
from tests.unit.operator.api.objects import defaulted, deployment, machine, wanted_set

CP = wanted_set("cp", "control-plane", pool={"selector": {"matchLabels": {"rack": "a"}}})
ANY = wanted_set("w", "worker", replicas=2, pool={})


def wish(*sets: Any) -> ClusterDeployment:
    """Return the wish for sets."""
    return defaulted(deployment(*sets))


def given(name: str, *, phase: str | None = None, made: str | None = None, **labels: str) -> DeclaredMachine:
    """Return a Machine that nobody has claimed."""
    obj = machine(name)
    obj["metadata"] |= {"labels": labels, "creationTimestamp": made}
    obj["status"] = {"phase": phase}
    return DeclaredMachine.model_validate(obj)


def sets_of(machines: tuple[DeclaredMachine, ...]) -> dict[str, str]:
    """Return the sets of the machines that are claimed, by name."""
    return {m.metadata.name: m.spec.claim.set_name for m in machines if m.spec.claim is not None}


def test_sets_take_machines_with_their_labels_in_order() -> None:
    found = claimed(wish(CP, ANY), [given("m-1"), given("m-2", rack="a"), given("m-3"), given("m-4")])
    assert sets_of(found) == {"m-2": "cp", "m-1": "w", "m-3": "w"}
    assert [one.metadata.name for one in found] == ["m-1", "m-2", "m-3", "m-4"]


def test_sets_that_have_machines_made_get_what_they_lack() -> None:
    kubevirt = {"image": {"url": "http://m/x", "checksum": "sha256:" + "a" * 64}, "memory": "1Gi", "disk": "9Gi"}
    made = wanted_set("more", "worker", replicas=2, kubevirt=kubevirt)
    found = claimed(wish(CP, made), [given("m-1", rack="a"), given("m-2", rack="a")])
    assert sorted(sets_of(found).values()) == ["cp", "more", "more"]
    assert len(found) == 4


def test_the_oldest_machines_are_taken_first() -> None:
    found = claimed(wish(ANY), [given("a", made="3"), given("b", made="1"), given("c", made="2")])
    assert sets_of(found) == {"b": "w", "c": "w"}


def test_machines_that_are_not_idle_are_left_alone() -> None:
    states = ("Pending", "Unreachable", "Failed", "Idle")
    assert sets_of(claimed(wish(ANY), [given(state.lower(), phase=state) for state in states])) == {"idle": "w"}


def test_a_machine_that_exists_and_was_not_looked_at_yet_is_left_alone() -> None:
    fresh = given("m-1").model_copy(update={"metadata": given("m-1").metadata.model_copy(update={"uid": "4f"})})
    assert sets_of(claimed(wish(ANY), [fresh])) == {}


def test_machines_of_another_namespace_are_left_alone() -> None:
    other = given("m-1").model_copy(
        update={"metadata": given("m-1").metadata.model_copy(update={"namespace": "elsewhere"})}
    )
    assert sets_of(claimed(wish(ANY), [other])) == {}


def test_a_set_with_names_takes_these() -> None:
    named = wanted_set("w", "worker", replicas=2, names=["m-3", "m-9"])
    assert sets_of(claimed(wish(named), [given("m-1"), given("m-3")])) == {"m-3": "w"}


def test_machines_that_are_claimed_already_count() -> None:
    once = claimed(wish(ANY), [given("m-1"), given("m-2"), given("m-3")])
    assert claimed(wish(ANY), once) == once


def test_without_machines_each_set_has_what_it_asks_for() -> None:
    named = wanted_set("db", "etcd", names=["m-7"])
    assert sets_of(invented(wish(CP, ANY, named))) == {"cp-0": "cp", "w-0": "w", "w-1": "w", "m-7": "db"}
