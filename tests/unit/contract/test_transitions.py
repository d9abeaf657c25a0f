"""The comparison of watch streams sees what it is meant to see, and the recordings agree with themselves."""

from __future__ import annotations

import copy

import pytest

from tests.contract.streams import Streams, recording
from tests.contract.transitions import Step, Tolerance, WatchEvent, differences, event_kinds, steps, vm_facets
from tests.contract.walks import (
    DV_RECORDING,
    DV_WALKS,
    VM_ORDER,
    VM_RECORDING,
    VM_WALKS,
    compare_dv,
    compare_vm,
    compare_walk,
    order_violations,
)


def _run(*changes: tuple[str, str, int]) -> list[Step]:
    return [Step(*change) for change in changes]


RECORDED = _run(("phase", "Pending", 1), ("ready", "False", 2), ("phase", "Running", 3), ("ready", "True", 4))


def test_a_run_agrees_with_itself() -> None:
    assert differences(RECORDED, RECORDED) == []


def test_several_changes_in_one_update_agree() -> None:
    live = _run(("phase", "Pending", 1), ("ready", "False", 1), ("phase", "Running", 9), ("ready", "True", 9))
    assert differences(RECORDED, live) == []


def test_a_value_that_never_came_is_a_difference() -> None:
    assert differences(RECORDED, RECORDED[:-1]) == ["ready: recorded False -> True; live False"]


def test_a_value_that_should_not_come_is_a_difference() -> None:
    live = [*RECORDED, Step("phase", "Failed", 5)]
    assert differences(RECORDED, live) == [
        "phase: recorded Pending -> Running; live Pending -> Running -> Failed",
    ]


def test_a_change_before_one_that_it_followed_is_a_difference() -> None:
    live = _run(("phase", "Pending", 1), ("ready", "False", 2), ("ready", "True", 3), ("phase", "Running", 4))
    assert differences(RECORDED, live) == [
        "ready=True came before phase=Running; in the recording it came after",
    ]


def test_an_unordered_facet_is_compared_alone() -> None:
    live = _run(("phase", "Pending", 1), ("ready", "False", 2), ("ready", "True", 3), ("phase", "Running", 4))
    assert differences(RECORDED, live, Tolerance(unordered=frozenset({"ready"}))) == []
    assert differences(RECORDED, live[:-2], Tolerance(unordered=frozenset({"ready"}))) != []


def test_a_value_that_comes_again_may_count_once() -> None:
    live = _run(*((s.facet, s.value, s.revision) for s in RECORDED), ("ready", "False", 5), ("ready", "True", 6))
    assert differences(RECORDED, live) != []
    assert differences(RECORDED, live, Tolerance(once=frozenset({"ready"}))) == []


def test_an_ignored_value_may_come_or_not() -> None:
    tolerance = Tolerance(ignored=frozenset({"phase=Scheduled"}))
    live = [*RECORDED[:2], Step("phase", "Scheduled", 2), *RECORDED[2:]]
    assert differences(RECORDED, live, tolerance) == []
    assert differences(RECORDED, live) != []


def test_events_count_by_first_occurrence() -> None:
    told = [("Normal", "Pending"), ("Normal", "Bound"), ("Normal", "Pending"), ("Warning", "Failed")]
    events = [{"type": kind, "reason": reason} for kind, reason in told]
    assert event_kinds(events, frozenset({"Bound"})) == ["Normal Pending", "Warning Failed"]


def test_steps_hold_existence_and_finalizers() -> None:
    meta = {"name": "a", "resourceVersion": "1"}
    deleted = {**meta, "resourceVersion": "3", "deletionTimestamp": "now"}
    stream: list[WatchEvent] = [
        ("ADDED", {"metadata": meta}),
        ("MODIFIED", {"metadata": {**meta, "resourceVersion": "2", "finalizers": ["f"]}}),
        ("MODIFIED", {"metadata": {**deleted, "finalizers": ["f"]}}),
        ("DELETED", {"metadata": {**deleted, "resourceVersion": "4"}}),
    ]
    seen = [(s.facet, s.value) for s in steps(stream, lambda _obj: {})]
    assert seen == [
        ("existence", "there"),
        ("finalizers", "f"),
        ("existence", "deleting"),
        ("existence", "gone"),
        ("finalizers", "-"),
    ]


@pytest.mark.parametrize("walk", VM_WALKS, ids=lambda walk: walk.stream)
def test_the_recorded_machine_agrees_with_itself(walk: object) -> None:
    recorded = recording(VM_RECORDING)
    (found,) = (w for w in VM_WALKS if w is walk)
    assert len(steps(recorded.of(found.stream, found.recorded_name), found.facets)) > 10
    assert compare_walk(found, recorded, recorded, "cp-0") == []


def test_the_corrected_recording_agrees_with_the_one_of_the_whole_kubevirt() -> None:
    """They differ in what was asked for: the binding, the run strategy and the number of volumes."""
    assert compare_vm(recording("vm-lifecycle-masquerade.json"), "vm") == [
        "vm: condition/LiveMigratable: recorded False/InterfaceNotLiveMigratable; live False/DisksNotLiveMigratable",
        "vm: condition/StorageLiveMigratable: recorded False/NotMigratable; live True",
        "vm: runStrategy: recorded Once; live Always",
        "vm: volumeSnapshots: recorded 0 -> 2; live 0 -> 1",
        "vmi: condition/LiveMigratable: recorded False/InterfaceNotLiveMigratable; live False/DisksNotLiveMigratable",
        "vmi: condition/StorageLiveMigratable: recorded False/NotMigratable; live True",
    ]


def test_the_recorded_machine_keeps_the_order_across_objects() -> None:
    recorded = recording(VM_RECORDING)
    assert order_violations(recorded, lambda walk: walk.recorded_name, VM_ORDER) == []
    del recorded.watch["vmi"][-1]
    assert len(order_violations(recorded, lambda walk: walk.recorded_name, VM_ORDER)) == 2


@pytest.mark.parametrize("which", sorted(DV_WALKS))
def test_a_recorded_volume_agrees_with_itself_and_no_other(which: str) -> None:
    recorded = recording(DV_RECORDING)
    assert compare_dv(recorded, which, which) == []
    for other in set(DV_WALKS) - {which}:
        assert compare_dv(recorded, which, other) != []


def test_a_machine_that_skips_a_status_is_noticed() -> None:
    recorded = recording(VM_RECORDING)
    live = Streams(copy.deepcopy(recorded.watch), recorded.events)
    live.watch["vm"] = [(t, o) for t, o in live.watch["vm"] if o.get("status", {}).get("printableStatus") != "Starting"]
    assert len(live.watch["vm"]) < len(recorded.watch["vm"])
    found = differences(steps(recorded.of("vm", "cp-0"), vm_facets), steps(live.of("vm", "cp-0"), vm_facets))
    assert any(line.startswith("printableStatus: ") for line in found)
