"""What a VirtualMachineInstance is, given its pod: phase, conditions, readiness."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from harness.embedded.node import pods
from harness.embedded.objects import condition
from harness.embedded.vmi import phases
from harness.embedded.vmi.phases import SyncError, next_status, placed
from tests.unit.embedded.recording import RECORDED_AT, Json, untimed, versions, without_nulls
from tests.unit.embedded.vmi.things import pod, vmi

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_paused_machines_pod_is_not_ready() -> None:
    pod = {"status": {"conditions": [{"type": phases.UNPAUSED, "status": "True"}, {"type": "Ready", "status": "True"}]}}
    paused = {"status": {"conditions": [{"type": phases.PAUSED, "status": "True"}]}}
    assert phases.unpaused_condition({}, pod, MOMENT) is None
    assert pods.ready_by_gate(pod, phases.UNPAUSED) is None

    closed = phases.unpaused_condition(paused, pod, MOMENT)
    assert closed is not None
    assert (closed[0]["status"], closed[0]["reason"]) == ("False", "Paused")
    pod["status"]["conditions"][0] = closed[0]
    ready = pods.ready_by_gate(pod, phases.UNPAUSED)
    assert ready is not None
    assert (ready[0]["status"], ready[0]["reason"]) == ("False", "ReadinessGatesNotReady")


NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
DELETED = {"deletionTimestamp": "2026-11-21T10:00:00Z"}


@pytest.mark.parametrize(
    ("before", "launcher", "after"),
    [
        ("Pending", None, "Pending"),
        ("Pending", pod(), "Scheduling"),
        ("Scheduling", pod(node="n0"), "Scheduling"),
        ("Scheduling", pod("Running", node="n0", ready=False), "Scheduling"),
        ("Scheduling", pod("Running", node="n0"), "Scheduled"),
        ("Scheduling", None, "Failed"),
        ("Scheduled", None, "Failed"),
        ("Running", None, "Failed"),
        ("Running", pod("Failed", node="n0"), "Failed"),
        ("Running", pod("Running", node="n0"), "Running"),
        ("Succeeded", None, "Succeeded"),
        ("Failed", pod("Running", node="n0"), "Failed"),
    ],
)
def test_phase_after(before: str, launcher: Json | None, after: str) -> None:
    assert next_status(vmi(before), launcher, NOW, None)["phase"] == after


def test_instance_deleted_before_it_had_a_pod_fails() -> None:
    going = vmi("Pending")
    going["metadata"] |= DELETED
    assert next_status(going, None, NOW, None)["phase"] == "Failed"


def test_unschedulable_pod_shows_and_goes_again() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    shown = next_status(vmi("Scheduling"), pod(conditions=[refused]), NOW, None)
    assert condition({"status": shown}, "PodScheduled") == refused
    placed = {"type": "PodScheduled", "status": "True"}
    after = {**vmi("Scheduling"), "status": shown}
    assert (
        condition({"status": next_status(after, pod(node="n0", conditions=[placed]), NOW, None)}, "PodScheduled")
        is None
    )


def test_message_of_an_unschedulable_pod_is_not_refreshed() -> None:
    old = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "first"}
    new = {**old, "message": "second"}
    status = next_status(vmi("Scheduling", conditions=[old]), pod(conditions=[new]), NOW, None)
    shown = condition({"status": status}, "PodScheduled")
    assert shown is not None
    assert shown["message"] == "first"


def test_sync_error_shows_and_goes_again() -> None:
    shown = next_status(vmi(), None, NOW, SyncError("FailedPvcNotFound", "PVC a/b does not exist"))
    found = condition({"status": shown}, "Synchronized")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "FailedPvcNotFound")
    assert condition({"status": next_status({**vmi(), "status": shown}, pod(), NOW, None)}, "Synchronized") is None


def instance_steps() -> Iterator[tuple[str, Json, Json | None, Json]]:
    """Yield (name, instance, pod, recorded next instance) for each step that is the controller's own."""
    vmi, pod = versions("vmi"), versions("pod")
    yield "Pending to Scheduling", vmi[1], pod[0], vmi[2]
    yield "bound", vmi[2], pod[2], vmi[3]
    yield "Running to Ready", vmi[5], pod[4], vmi[6]
    yield "pod terminating", vmi[7], pod[5], vmi[8]
    yield "pod gone", vmi[8], None, vmi[9]


@pytest.mark.parametrize("number", range(5))
def test_instance_status_follows_the_recording(number: int) -> None:
    name, before, pod, after = list(instance_steps())[number]
    status = without_nulls(untimed(next_status(before, pod, RECORDED_AT, None)))
    expected = without_nulls(untimed(after["status"]))
    # The recording's script forgot the pod's interface name for one update.
    for side in (status, expected):
        for interface in side.get("interfaces") or []:
            interface.pop("podInterfaceName", None)
    assert status == expected, name


def test_scheduled_instance_has_its_place_as_recorded() -> None:
    before, pod, after = versions("vmi")[3], versions("pod")[3], versions("vmi")[4]
    claim = {
        "metadata": {"name": "cp-0-root"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}},
        "status": {"capacity": {"storage": "4Gi"}},
    }
    status = next_status(before, pod, RECORDED_AT, None)
    placed(status, before, pod, {"cp-0-root": claim})
    assert untimed(status) == untimed(after["status"])
