"""A machine's status: one row per rule of the Status column, and the whole as the real KubeVirt wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.embedded.vm.status import Seen, printable_status, vm_status
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
