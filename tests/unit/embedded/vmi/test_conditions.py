"""An instance's conditions, given its pod, and its pod's readiness gate."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.embedded.node import pods
from harness.embedded.vmi.conditions import PAUSED, UNPAUSED, SyncError, unpaused_condition
from harness.embedded.vmi.phases import next_status
from harness.kube.objects import condition
from tests.unit.embedded.recording import Json
from tests.unit.embedded.vmi.samples import pod, vmi

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_paused_machines_pod_is_not_ready() -> None:
    pod = {"status": {"conditions": [{"type": UNPAUSED, "status": "True"}, {"type": "Ready", "status": "True"}]}}
    paused = {"status": {"conditions": [{"type": PAUSED, "status": "True"}]}}
    assert unpaused_condition({}, pod, MOMENT) is None
    assert pods.ready_by_gate(pod, UNPAUSED) is None

    closed = unpaused_condition(paused, pod, MOMENT)
    assert closed is not None
    assert (closed[0]["status"], closed[0]["reason"]) == ("False", "Paused")
    pod["status"]["conditions"][0] = closed[0]
    ready = pods.ready_by_gate(pod, UNPAUSED)
    assert ready is not None
    assert (ready[0]["status"], ready[0]["reason"]) == ("False", "ReadinessGatesNotReady")


NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


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


def filled(*states: str) -> list[Json]:
    return [{"status": {"conditions": [{"type": "Ready", "status": state}]}} for state in states]


@pytest.mark.parametrize(
    ("data_volumes", "said"),
    [
        (filled("True", "True"), "True/AllDVsReady"),
        (filled("True", "False", "Unknown"), "False/NotAllDVsReady"),
        ([*filled("True"), {"status": {}}], "Unknown/NotAllDVsReady"),
        ([], "none"),
    ],
)
def test_an_instance_says_whether_its_data_volumes_are_ready(data_volumes: list[Json], said: str) -> None:
    status = next_status(vmi("Pending"), None, NOW, None, data_volumes)
    found = condition({"status": status}, "DataVolumesReady")
    assert (f"{found['status']}/{found['reason']}" if found else "none") == said


def test_an_instance_that_waits_for_its_volumes_has_no_pod() -> None:
    status = next_status(vmi("Pending"), None, NOW, None, filled("False"))
    ready = condition({"status": status}, "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "PodNotExists")
