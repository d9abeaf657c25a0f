"""A machine's status: one row per rule of the Status column, and the whole as the real KubeVirt wrote it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.embedded.vm.status import (
    InstanceAction,
    Seen,
    backoff_seconds,
    decide,
    printable_status,
    run_strategy,
    start_failure,
    vm_status,
)
from tests.unit.embedded.recording import RECORDED_AT, untimed, versions, without_nulls

Json = dict[str, Any]


def vm(strategy: str = "Always", *, deleting: bool = False, **status: Any) -> Json:
    meta = {"deletionTimestamp": "2026-11-21T10:00:00Z"} if deleting else {}
    return {"metadata": meta, "spec": {"runStrategy": strategy}, "status": status}


def vmi(phase: str, *conditions: Json, deleting: bool = False) -> Json:
    meta = {"deletionTimestamp": "2026-11-21T10:00:00Z"} if deleting else {}
    return {"metadata": meta, "status": {"phase": phase, "conditions": list(conditions)}}


def condition(kind: str, status: str, reason: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason}


def dv(phase: str, *conditions: Json) -> Json:
    return {"metadata": {}, "status": {"phase": phase, "conditions": list(conditions)}}


PENDING_CLAIM = {"metadata": {}, "status": {"phase": "Pending"}}
FAILED_ONCE: Json = {"startFailure": {"consecutiveFailCount": 1}}
UNSCHEDULABLE = condition("PodScheduled", "False", "Unschedulable")
NO_PVC = condition("Synchronized", "False", "FailedPvcNotFound")
BOUND = condition("Bound", "True")

TABLE = [
    ("Terminating", Seen(vm(deleting=True), vmi("Running"))),
    ("Stopping", Seen(vm(), vmi("Running", deleting=True))),
    ("Stopping", Seen(vm(), vmi("Scheduling"), stop_expected=True)),
    ("Stopped", Seen(vm(), vmi("Succeeded", deleting=True))),
    ("Paused", Seen(vm(), vmi("Running", condition("Paused", "True")))),
    ("Running", Seen(vm(), vmi("Running", condition("Ready", "False")))),
    ("ErrorPvcNotFound", Seen(vm(), vmi("Pending", NO_PVC))),
    ("ErrorPvcNotFound", Seen(vm(), vmi("Pending", NO_PVC), [dv("Failed")])),
    ("DataVolumeError", Seen(vm(), None, [dv("Failed")])),
    ("DataVolumeError", Seen(vm(), None, [dv("ImportInProgress", condition("Running", "False", "Error"))])),
    ("DataVolumeError", Seen(vm(), None, [dv("ImportInProgress", condition("Running", "False", "ImagePullFailed"))])),
    ("DataVolumeError", Seen(vm(), vmi("Scheduling", UNSCHEDULABLE), [dv("Failed")])),
    ("ErrorUnschedulable", Seen(vm(), vmi("Scheduling", UNSCHEDULABLE), [dv("ImportInProgress")])),
    ("Provisioning", Seen(vm(), None, [dv("ImportInProgress")])),
    ("Provisioning", Seen(vm(), vmi("Pending"), [dv("ImportScheduled")])),
    ("Provisioning", Seen(vm(), None, [dv("WaitForFirstConsumer", BOUND)])),
    ("WaitingForVolumeBinding", Seen(vm(), None, [dv("WaitForFirstConsumer")], [PENDING_CLAIM])),
    ("WaitingForVolumeBinding", Seen(vm(), vmi("Scheduling"), [], [PENDING_CLAIM])),
    ("Stopped", Seen(vm("Halted"), None, [], [PENDING_CLAIM])),
    ("ErrImagePull", Seen(vm(), vmi("Scheduling", condition("Synchronized", "False", "ErrImagePull")))),
    ("ImagePullBackOff", Seen(vm(), vmi("Scheduling", condition("Synchronized", "False", "ImagePullBackOff")))),
    ("Starting", Seen(vm(), None, start_expected=True)),
    *(("Starting", Seen(vm(), vmi(phase))) for phase in ("", "Pending", "Scheduling", "Scheduled")),
    *(("CrashLoopBackOff", Seen(vm(s, **FAILED_ONCE), None)) for s in ("Always", "RerunOnFailure", "Once")),
    ("CrashLoopBackOff", Seen(vm("Once", **FAILED_ONCE), vmi("Failed"))),
    ("Stopped", Seen(vm("Manual", **FAILED_ONCE), None)),
    ("Starting", Seen(vm(**FAILED_ONCE), vmi("Scheduling"))),
    ("Stopped", Seen(vm("Halted"), None)),
    ("Stopped", Seen(vm("Once"), vmi("Succeeded"))),
    ("Stopped", Seen(vm("Once"), vmi("Failed"))),
    ("Unknown", Seen(vm(), vmi("Unknown"))),
]


@pytest.mark.parametrize(("expected", "seen"), TABLE, ids=[f"{n}-{row[0]}" for n, row in enumerate(TABLE)])
def test_status_is_the_first_rule_that_matches(expected: str, seen: Seen) -> None:
    assert printable_status(seen) == expected


MACHINE_STEPS = [
    # name, VM before, instance (its version in the recording) or None, just created, recorded VM after
    ("instance created", 3, None, True, 4),
    ("instance seen", 4, 1, False, 5),
    ("scheduling", 5, 2, False, 6),
    ("asked by its node's agent", 6, 5, False, 7),
    ("running", 7, 6, False, 8),
    ("ready", 8, 7, False, 9),
    ("deleted", 10, 8, False, 11),
    ("pod terminating", 11, 9, False, 12),
    ("shut down", 12, 10, False, 12),
    ("let go", 12, 11, False, 12),
]


@pytest.mark.parametrize(("name", "before", "seen", "created", "after"), MACHINE_STEPS)
def test_machine_status_follows_the_recording(
    name: str, before: int, seen: int | None, created: bool, after: int
) -> None:
    machine, expected = versions("vm")[before], versions("vm")[after]
    instance = versions("vmi")[seen] if seen is not None else None
    status = vm_status(Seen(machine, instance, start_expected=created), RECORDED_AT)
    assert without_nulls(untimed(status)) == without_nulls(untimed(expected["status"])), name


NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
UID = "u1"
START = {"stateChangeRequests": [{"action": "Start"}]}
STOP = {"stateChangeRequests": [{"action": "Stop", "uid": UID}]}


def vm_run_strategy(strategy: str, **status: Any) -> Json:
    return {"metadata": {}, "spec": {"runStrategy": strategy}, "status": status}


def vmi_run_strategy(phase: str, *, deleting: bool = False, ran: bool = True) -> Json:
    meta: Json = {"uid": UID}
    if deleting:
        meta["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    transitions = [{"phase": "Running"}] if ran else []
    return {"metadata": meta, "status": {"phase": phase, "phaseTransitionTimestamps": transitions}}


RAN = {"runStrategy": "RerunOnFailure", "observedGeneration": 1}
WAITING = {"startFailure": {"consecutiveFailCount": 1, "retryAfterTimestamp": "2026-11-21T10:00:07Z"}}

TABLE_RUN_STRATEGY: list[tuple[str, Json, Json | None, InstanceAction]] = [
    ("Always starts", vm_run_strategy("Always"), None, InstanceAction(start=True)),
    ("Always leaves a running one", vm_run_strategy("Always"), vmi_run_strategy("Running"), InstanceAction()),
    ("Always clears a failed one", vm_run_strategy("Always"), vmi_run_strategy("Failed"), InstanceAction(stop=True)),
    (
        "Always clears one that was shut down",
        vm_run_strategy("Always"),
        vmi_run_strategy("Succeeded"),
        InstanceAction(stop=True),
    ),
    (
        "Always restarts on request",
        vm_run_strategy("Always", **STOP),
        vmi_run_strategy("Running"),
        InstanceAction(stop=True, answered=True),
    ),
    ("Always waits out its back-off", vm_run_strategy("Always", **WAITING), None, InstanceAction(again=7.0)),
    (
        "nothing while one is going",
        vm_run_strategy("Always"),
        vmi_run_strategy("Running", deleting=True),
        InstanceAction(),
    ),
    ("Once starts", vm_run_strategy("Once"), None, InstanceAction(start=True)),
    ("Once leaves a failed one", vm_run_strategy("Once"), vmi_run_strategy("Failed"), InstanceAction()),
    ("Once leaves one that was shut down", vm_run_strategy("Once"), vmi_run_strategy("Succeeded"), InstanceAction()),
    ("Rerun starts the first time", vm_run_strategy("RerunOnFailure"), None, InstanceAction(start=True)),
    (
        "Rerun reruns a failed one",
        vm_run_strategy("RerunOnFailure"),
        vmi_run_strategy("Failed"),
        InstanceAction(stop=True, rerun=True),
    ),
    (
        "Rerun clears one that was shut down",
        vm_run_strategy("RerunOnFailure"),
        vmi_run_strategy("Succeeded"),
        InstanceAction(stop=True),
    ),
    ("Rerun stays down after a shut down", vm_run_strategy("RerunOnFailure", **RAN), None, InstanceAction()),
    (
        "Rerun starts on request",
        vm_run_strategy("RerunOnFailure", **RAN, **START),
        None,
        InstanceAction(start=True, answered=True),
    ),
    ("Manual waits", vm_run_strategy("Manual"), None, InstanceAction()),
    ("Manual starts on request", vm_run_strategy("Manual", **START), None, InstanceAction(start=True, answered=True)),
    (
        "Manual stops on request",
        vm_run_strategy("Manual", **STOP),
        vmi_run_strategy("Running"),
        InstanceAction(stop=True, answered=True),
    ),
    ("Manual leaves a failed one", vm_run_strategy("Manual"), vmi_run_strategy("Failed"), InstanceAction()),
    ("Halted stays down", vm_run_strategy("Halted"), None, InstanceAction()),
    ("Halted stops", vm_run_strategy("Halted"), vmi_run_strategy("Running"), InstanceAction(stop=True)),
]


@pytest.mark.parametrize(
    ("machine", "instance", "expected"),
    [row[1:] for row in TABLE_RUN_STRATEGY],
    ids=[row[0] for row in TABLE_RUN_STRATEGY],
)
def test_strategy_asks_for(machine: Json, instance: Json | None, expected: InstanceAction) -> None:
    assert decide(machine, instance, NOW) == expected


@pytest.mark.parametrize(("running", "strategy"), [(True, "Always"), (False, "Halted")])
def test_deprecated_running_stands_for_a_strategy(running: bool, strategy: str) -> None:
    assert run_strategy({"spec": {"running": running}}) == strategy


@pytest.mark.parametrize(("failures", "least", "most"), [(1, 10, 15), (2, 40, 60), (3, 90, 135), (6, 300, 300)])
def test_back_off_grows_with_the_square_of_failures(failures: int, least: float, most: float) -> None:
    assert backoff_seconds(failures, 0.0) == least
    assert backoff_seconds(failures, 1.0) == most


def test_instance_that_never_ran_counts_as_a_start_failure_once() -> None:
    first = start_failure(vm_run_strategy("Always"), vmi_run_strategy("Failed", ran=False), NOW)
    assert first is not None
    assert (first["consecutiveFailCount"], first["lastFailedVMIUID"]) == (1, UID)
    assert first["retryAfterTimestamp"] >= "2026-11-21T10:00:10Z"
    again = start_failure(
        vm_run_strategy("Always", startFailure=first), vmi_run_strategy("Failed", ran=False), NOW + timedelta(seconds=5)
    )
    assert again == first


def test_start_failures_add_up_over_instances() -> None:
    before = {"consecutiveFailCount": 2, "lastFailedVMIUID": "u0", "retryAfterTimestamp": "2026-11-21T09:00:00Z"}
    after = start_failure(vm_run_strategy("Once", startFailure=before), vmi_run_strategy("Failed", ran=False), NOW)
    assert after is not None
    assert after["consecutiveFailCount"] == 3


def test_instance_that_ran_forgives_start_failures() -> None:
    assert start_failure(vm_run_strategy("Always", **WAITING), vmi_run_strategy("Failed", ran=True), NOW) is None


def test_start_failures_outlive_the_instance() -> None:
    assert start_failure(vm_run_strategy("Always", **WAITING), None, NOW) == WAITING["startFailure"]


@pytest.mark.parametrize("strategy", ["Manual", "Halted"])
def test_strategies_that_do_not_restart_count_no_failures(strategy: str) -> None:
    assert start_failure(vm_run_strategy(strategy, **WAITING), vmi_run_strategy("Failed", ran=False), NOW) is None
