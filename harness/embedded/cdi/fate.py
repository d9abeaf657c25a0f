"""A pod's fate as annotations of its claim, by which the DataVolume learns of it.

As CDI does it (v1.66.0, pkg/controller: `setAnnotationsFromPodWithPrefix`, `simplifyKnownMessage`, `updatePvcFromPod`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.embedded.cdi import names
from harness.embedded.cdi.conditions import POD_RUNNING_REASON, SCRATCH_MESSAGE
from harness.kube.client import Json
from harness.kube.objects import condition, dig, phase

CHECKSUM_MISMATCH = "checksum mismatch"
PULL_FAILED = "failed to pull image"
SCRATCH_REASON = "Scratch space required"
TOO_SMALL = "DataVolume too small to contain image"
# Compared case by case: qemu-img's "No space left on device" is not among them.
SIMPLIFIED = (
    "is larger than the reported available",
    "no space left on device",
    "file largest block is bigger than maxblock",
    "disk quota exceeded",
)


def fate_of(pod: Json) -> dict[str, str]:
    """Return what a pod's status says, as annotations of its claim."""
    scheduled = condition(pod, "PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    answer = {
        names.POD_PHASE: phase(pod),
        names.POD_SCHEDULABLE: "false" if unschedulable else "true",
    }
    container = _container(pod)
    if not names.imports(pod):
        answer[names.POD_READY] = str(bool(container.get("ready"))).lower()
    if not container:
        return answer
    answer[names.POD_RESTARTS] = str(container.get("restartCount") or 0)
    answer |= _running(container)
    if wants_scratch(pod):
        del answer[names.POD_PHASE]  # it has imported nothing, whatever its phase says
    return answer


def wants_scratch(pod: Json) -> bool:
    """Tell whether an importer ended for want of scratch space."""
    return _told(dig(_container(pod), "state", "terminated") or {}).get("scratchSpaceRequired") is True


def failure_of(pod: Json) -> str:
    """Return what a pod whose container has just ended says of its failure, "" when there is none to tell."""
    ended = dig(_container(pod), "state", "terminated") or {}
    message = str(_told(ended).get("message") or "")
    if ended.get("exitCode") == 0:
        return message if CHECKSUM_MISMATCH in message else ""
    return str(ended.get("message") or "")


def _container(pod: Json) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(iter(dig(pod, "status", "containerStatuses") or []), {})
    return found


def _running(container: Mapping[str, Any]) -> dict[str, str]:
    state = container.get("state") or {}
    if "running" in state:
        return _says("true", POD_RUNNING_REASON, "")
    ended = state.get("terminated") or dig(container, "lastState", "terminated")
    if ended is None:
        waiting = state.get("waiting") or {}
        return _says("false", waiting.get("reason") or "", simplified(waiting.get("message") or ""))
    if ended.get("exitCode") != 0:
        text = ended.get("message") or ""
        return _says("false", "ImagePullFailed" if PULL_FAILED in text else ended.get("reason") or "", simplified(text))
    told = _told(ended)
    if told.get("scratchSpaceRequired"):
        return _says("false", SCRATCH_REASON, SCRATCH_MESSAGE) | {names.REQUIRES_SCRATCH: "true"}
    message = str(told.get("message") or "")
    if CHECKSUM_MISMATCH in message:
        return _says("false", names.CHECKSUM_ERROR, message) | {names.FATAL: "true", names.POD_PHASE: "Failed"}
    return _says("false", ended.get("reason") or "", message)


def _says(running: str, reason: str, message: str) -> dict[str, str]:
    return {names.RUNNING: running, names.RUNNING_REASON: reason, names.RUNNING_MESSAGE: message}


def _told(ended: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON that a pod of CDI's leaves when it ends with exit code 0, empty when there is none."""
    try:
        told = json.loads(ended.get("message") or "") if ended.get("exitCode") == 0 else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def simplified(message: str) -> str:
    """Return a message as CDI passes it on to the DataVolume: of some it makes another."""
    return TOO_SMALL if any(known in message for known in SIMPLIFIED) else message
