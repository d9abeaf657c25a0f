"""A transfer pod's status as annotations of its claim."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.embedded.cdi import claims
from harness.embedded.cdi.population import annotations_from_pod, failure_message, wants_scratch

MISMATCH = "Unable to process data: checksum mismatch: expected a, calculated b"


def pod(phase: str, **container: Any) -> dict[str, Any]:
    statuses = [{"restartCount": 2, "ready": False, **container}] if container else []
    return {"metadata": {"name": "importer-dv"}, "status": {"phase": phase, "containerStatuses": statuses}}


def test_a_running_pod() -> None:
    fate = annotations_from_pod(pod("Running", ready=True, state={"running": {}}))
    assert (fate[claims.RUNNING], fate[claims.RUNNING_REASON]) == ("true", "Pod is running")
    assert (fate[claims.POD_PHASE], fate[claims.POD_READY]) == ("Running", "true")


def test_a_failed_container_says_why_and_keeps_saying_it_while_it_waits() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "no"}
    at_once = annotations_from_pod(pod("Running", state={"terminated": ended}))
    later = annotations_from_pod(
        pod("Running", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ended})
    )
    assert at_once == later
    assert (later[claims.RUNNING_REASON], later[claims.RUNNING_MESSAGE], later[claims.POD_RESTARTS]) == (
        "Error",
        "no",
        "2",
    )
    assert claims.FATAL not in later


def test_a_wrong_checksum_is_fatal() -> None:
    ended = {"exitCode": 0, "reason": "Completed", "message": json.dumps({"message": MISMATCH})}
    fate = annotations_from_pod(pod("Succeeded", state={"terminated": ended}))
    assert (fate[claims.FATAL], fate[claims.POD_PHASE]) == ("true", "Failed")
    assert (fate[claims.RUNNING_REASON], fate[claims.RUNNING_MESSAGE]) == ("ChecksumError", MISMATCH)


def test_a_good_end_is_no_failure() -> None:
    message = json.dumps({"scratchSpaceRequired": False, "message": "Import Complete"})
    good = pod("Succeeded", state={"terminated": {"exitCode": 0, "reason": "Completed", "message": message}})
    fate = annotations_from_pod(good)
    assert (fate[claims.POD_PHASE], fate[claims.RUNNING_REASON], fate[claims.RUNNING_MESSAGE]) == (
        "Succeeded",
        "Completed",
        "Import Complete",
    )
    assert failure_message(good) == ""


def test_an_end_for_want_of_scratch_space_is_no_end() -> None:
    message = json.dumps({"scratchSpaceRequired": True, "message": "Import Complete"})
    first = pod("Succeeded", state={"terminated": {"exitCode": 0, "reason": "Completed", "message": message}})
    fate = annotations_from_pod(first)
    assert wants_scratch(first)
    assert claims.POD_PHASE not in fate
    assert fate[claims.REQUIRES_SCRATCH] == "true"
    assert (fate[claims.RUNNING_REASON], fate[claims.RUNNING_MESSAGE]) == (
        "Scratch space required",
        "scratch space required and none found",
    )


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("virtual image size 2 is larger than the reported available storage 1. A larger PVC is required", True),
        ("unable to write to file: write /scratch/tmpimage: no space left on device", True),
        ("unable to write to file: write /scratch/tmpimage: disk quota exceeded", True),
        ("qemu-img: error while writing at byte 4096: No space left on device", False),
    ],
)
def test_some_messages_are_replaced_for_the_data_volume_and_told_whole_in_the_claim_s_event(
    message: str, told: bool
) -> None:
    failed = pod("Running", state={"terminated": {"exitCode": 1, "reason": "Error", "message": message}})
    assert annotations_from_pod(failed)[claims.RUNNING_MESSAGE] == (
        "DataVolume too small to contain image" if told else message
    )
    assert failure_message(failed) == message


def test_a_download_that_broke_has_a_reason_of_its_own() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "failed to pull image: unexpected EOF"}
    assert annotations_from_pod(pod("Running", state={"terminated": ended}))[claims.RUNNING_REASON] == "ImagePullFailed"


def test_a_failure_is_told_when_it_happens_and_not_while_the_pod_waits() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "no"}
    later = pod("Running", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ended})
    assert failure_message(later) == ""


def test_a_pod_that_does_not_fit_is_said_to() -> None:
    waiting = pod("Pending")
    waiting["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    assert annotations_from_pod(waiting)[claims.POD_SCHEDULABLE] == "false"
