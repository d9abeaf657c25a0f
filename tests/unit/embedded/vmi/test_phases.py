"""What a VirtualMachineInstance is, given its pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from harness.embedded.vmi.phases import next_status, placed
from tests.unit.embedded.recording import RECORDED_AT, Json, untimed, versions, without_nulls
from tests.unit.embedded.vmi.samples import pod, vmi

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


def instance_steps() -> Iterator[tuple[str, Json, Json | None, Json]]:
    """Yield (name, instance, pod, recorded next instance) for each step that is the controller's own."""
    vmi, pod = versions("vmi"), versions("pod")
    yield "Pending to Scheduling", vmi[1], pod[0], vmi[2]
    yield "bound", vmi[2], pod[2], vmi[3]
    yield "Running to Ready", vmi[6], pod[4], vmi[7]
    yield "pod terminating", vmi[8], pod[5], vmi[9]
    yield "shut down", vmi[10], pod[5], vmi[10]
    yield "pod ended", vmi[11], pod[6], vmi[11]


@pytest.mark.parametrize("number", range(6))
def test_instance_status_follows_the_recording(number: int) -> None:
    name, before, pod, after = list(instance_steps())[number]
    filled = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    status = without_nulls(untimed(next_status(before, pod, RECORDED_AT, None, [filled])))
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
