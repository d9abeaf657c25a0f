"""A pod's fate as annotations of its claim, by which the DataVolume learns of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.embedded.cdi import names
from harness.embedded.cdi.conditions import POD_RUNNING_REASON
from harness.embedded.objects import condition, dig, phase
from harness.kube.client import Json

CHECKSUM_MISMATCH = "checksum mismatch"


def fate_of(pod: Json) -> dict[str, str]:
    """Return what a pod's status says, as annotations of its claim."""
    scheduled = condition(pod, "PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    answer = {
        names.POD_PHASE: phase(pod),
        names.POD_READY: "false",
        names.POD_SCHEDULABLE: "false" if unschedulable else "true",
    }
    container: Mapping[str, Any] | None = next(iter(dig(pod, "status", "containerStatuses") or []), None)
    if container is None:
        return answer
    answer[names.POD_RESTARTS] = str(container.get("restartCount") or 0)
    answer[names.POD_READY] = str(bool(container.get("ready"))).lower()
    return answer | _running(container)


def _running(container: Mapping[str, Any]) -> dict[str, str]:
    state = container.get("state") or {}
    if "running" in state:
        return {names.RUNNING: "true", names.RUNNING_MESSAGE: "", names.RUNNING_REASON: POD_RUNNING_REASON}
    ended = state.get("terminated") or dig(container, "lastState", "terminated")
    if ended is None:
        waiting = state.get("waiting") or {}
        message, reason = waiting.get("message") or "", waiting.get("reason") or ""
        return {names.RUNNING: "false", names.RUNNING_MESSAGE: message, names.RUNNING_REASON: reason}
    message = _message(ended.get("message") or "")
    said = {names.RUNNING: "false", names.RUNNING_MESSAGE: message, names.RUNNING_REASON: ended.get("reason") or ""}
    if ended.get("exitCode") == 0 and CHECKSUM_MISMATCH in message:
        said |= {names.RUNNING_REASON: names.CHECKSUM_ERROR, names.FATAL: "true", names.POD_PHASE: "Failed"}
    return said


def _message(text: str) -> str:
    """Return the words of a termination message: the importer leaves JSON when it ended by itself."""
    if not text.startswith("{"):
        return text
    try:
        return str(json.loads(text).get("message") or "")
    except ValueError:
        return text
