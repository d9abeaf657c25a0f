"""A pod's fate as annotations of its claim."""

from __future__ import annotations

import json
from typing import Any

from harness.embedded.cdi import names
from harness.embedded.cdi.fate import fate_of

MISMATCH = "Unable to process data: checksum mismatch: expected a, got b"


def pod(phase: str, **container: Any) -> dict[str, Any]:
    statuses = [{"restartCount": 2, "ready": False, **container}] if container else []
    return {"metadata": {"name": "importer-dv"}, "status": {"phase": phase, "containerStatuses": statuses}}


def test_a_running_pod() -> None:
    fate = fate_of(pod("Running", ready=True, state={"running": {}}))
    assert (fate[names.RUNNING], fate[names.RUNNING_REASON]) == ("true", "Pod is running")
    assert (fate[names.POD_PHASE], fate[names.POD_READY]) == ("Running", "true")


def test_a_failed_container_says_why_and_keeps_saying_it_while_it_waits() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "no"}
    at_once = fate_of(pod("Running", state={"terminated": ended}))
    later = fate_of(pod("Running", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ended}))
    assert at_once == later
    assert (later[names.RUNNING_REASON], later[names.RUNNING_MESSAGE], later[names.POD_RESTARTS]) == (
        "Error",
        "no",
        "2",
    )
    assert names.FATAL not in later


def test_a_wrong_checksum_is_fatal() -> None:
    ended = {"exitCode": 0, "reason": "Completed", "message": json.dumps({"message": MISMATCH})}
    fate = fate_of(pod("Succeeded", state={"terminated": ended}))
    assert (fate[names.FATAL], fate[names.POD_PHASE]) == ("true", "Failed")
    assert (fate[names.RUNNING_REASON], fate[names.RUNNING_MESSAGE]) == ("ChecksumError", MISMATCH)


def test_a_good_end_leaves_no_message() -> None:
    ended = {"exitCode": 0, "reason": "Completed", "message": json.dumps({"scratchSpaceRequired": False})}
    fate = fate_of(pod("Succeeded", state={"terminated": ended}))
    assert (fate[names.POD_PHASE], fate[names.RUNNING_REASON], fate[names.RUNNING_MESSAGE]) == (
        "Succeeded",
        "Completed",
        "",
    )


def test_a_pod_that_does_not_fit_is_said_to() -> None:
    waiting = pod("Pending")
    waiting["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    assert fate_of(waiting)[names.POD_SCHEDULABLE] == "false"
