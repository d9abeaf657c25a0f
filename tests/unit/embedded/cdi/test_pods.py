"""A transfer pod's status through its life."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.embedded.cdi import pods
from harness.embedded.cdi.transfers import TransferResult
from harness.kube.objects import stamp


def pod(status: dict[str, Any] | None = None, role: str = "importer") -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    return {
        "metadata": {"name": "importer-dv"},
        "spec": {"containers": [{"name": role, "image": role}]},
        "status": status or {"phase": "Pending", "conditions": [scheduled]},
    }


def started(at: dict[str, Any]) -> dict[str, Any]:
    return pod(pods.started(at, pods.container_of(at), "10.213.0.1"))


def test_a_started_pod_runs_and_is_ready_and_keeps_its_other_conditions() -> None:
    status = started(pod())["status"]
    assert (status["phase"], status["podIP"]) == ("Running", "10.213.0.1")
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    assert status["containerStatuses"][0]["restartCount"] == 0


def test_a_pod_that_came_to_its_node_has_no_container_and_its_start_is_no_restart() -> None:
    created = pod(pods.creating(pod()))
    assert created["status"]["phase"] == "Pending"
    assert pods.container_of(created)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert pods.container_of(started(created))["restartCount"] == 0


IMPORTED = {"scratchSpaceRequired": False, "preallocationApplied": False, "message": "Import Complete"}


@pytest.mark.parametrize(
    ("role", "outcome", "message"),
    [
        ("importer", TransferResult(), IMPORTED),
        ("importer", TransferResult(scratch=True), {**IMPORTED, "scratchSpaceRequired": True}),
        ("importer", TransferResult("checksum mismatch", fatal=True), {"message": "checksum mismatch"}),
        ("cdi-upload-server", TransferResult(), {"preallocationApplied": False, "message": "Clone Complete"}),
    ],
)
def test_a_pod_says_how_its_container_ended_and_is_over_then(
    role: str, outcome: TransferResult, message: dict[str, Any]
) -> None:
    status = pods.terminated(pod(started(pod())["status"], role), outcome)
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Running", 0, "Completed")
    assert json.loads(ended["message"]) == message
    assert pods.ended_well(pod(status))
    assert pods.completed(pod(status))["phase"] == "Succeeded"


def test_a_failure_keeps_the_pod_and_each_restart_is_counted() -> None:
    at = started(pod())
    for count in range(1, 4):
        failed = pod(pods.terminated(at, TransferResult("no")))
        assert failed["status"]["phase"] == "Running"
        assert not pods.ended_well(failed)
        assert failed["status"]["containerStatuses"][0]["ready"] is False
        at = started(failed)
        assert at["status"]["containerStatuses"][0]["restartCount"] == count
        assert at["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_a_pod_that_lost_its_transfer_counts_it_as_killed() -> None:
    container = started(started(pod()))["status"]["containerStatuses"][0]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 137


@pytest.mark.parametrize(("restarts", "seconds"), [(0, 1), (1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (40, 300)])
def test_waits_grow_as_the_kubelet_s(restarts: int, seconds: float) -> None:
    ended = {"finishedAt": stamp(datetime.now(UTC) + timedelta(seconds=1))}
    wait = pods.wait_before({"restartCount": restarts, "state": {"terminated": ended}})
    assert seconds - 1 <= wait <= seconds + 1


def test_a_container_that_waited_long_enough_starts() -> None:
    long_ago = {"finishedAt": "2026-11-21T10:00:00Z"}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert pods.wait_before({"restartCount": 9, "state": waiting, "lastState": {"terminated": long_ago}}) == 0.0
    assert pods.wait_before({}) == 0.0


def test_the_back_off_is_shown_from_the_second_failure_on() -> None:
    first = pod(pods.terminated(started(pod()), TransferResult("no")))
    assert pods.backing_off(first) is None
    second = pod(pods.terminated(started(first), TransferResult("no")))
    shown = pods.backing_off(second)
    assert shown is not None
    assert shown["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=importer pod=importer-dv",
    }
    assert pods.backing_off(pod(shown)) is None
