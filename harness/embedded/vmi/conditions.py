"""An instance's conditions, given its launcher pod, and its pod's readiness gate."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import (
    condition,
    deleting,
    dig,
    is_condition,
    new_condition,
    with_condition,
    without_condition,
)

UNPAUSED = "kubevirt.io/virtual-machine-unpaused"
PAUSED = "Paused"
UNTIMED: Json = {"lastProbeTime": None, "lastTransitionTime": None}  # of conditions whose turn KubeVirt does not time
IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff"})


@dataclass(frozen=True)
class SyncError:
    """Why an instance cannot go on: a condition's reason and message."""

    reason: str
    message: str


def ready(conditions: list[Json], after: str, pod: Json | None, moment: datetime) -> list[Json]:
    """Return an instance's conditions with Ready: its pod's, or why it is not ready in the phase `after`."""
    known = condition(pod, "Ready")
    if pod is None:
        why = "PodNotExists", "virt-launcher pod has not yet been scheduled"
    elif deleting(pod):
        why = "PodTerminating", "virt-launcher pod is terminating"
    elif after != "Running":
        why = "GuestNotRunning", "Guest VM is not reported as running"
    elif known is None:
        why = "PodConditionMissing", "virt-launcher pod is missing the Ready condition"
    else:
        new: Json = {k: known[k] for k in ("type", "status", "reason", "message", "lastTransitionTime") if k in known}
        return with_condition(conditions, {**new, "lastProbeTime": known.get("lastProbeTime")})
    return with_condition(conditions, new_condition("Ready", "False", *why, moment))


def scheduled(conditions: list[Json], before: str, pod: Json | None) -> list[Json]:
    """Mirror an unschedulable pod's condition; its message is not refreshed, and it goes when the pod has a place."""
    known = condition(pod, "PodScheduled")
    if before == "Scheduling" and known is not None and known["status"] == "False":
        mirrored = any(c["type"] == "PodScheduled" for c in conditions)
        return conditions if mirrored else [*conditions, copy.deepcopy(known)]
    return without_condition(conditions, "PodScheduled")


def synchronized(conditions: list[Json], error: SyncError | None, moment: datetime) -> list[Json]:
    """Return an instance's conditions with Synchronized as long as it cannot go on."""
    if error is None:
        return without_condition(conditions, "Synchronized")
    new = new_condition("Synchronized", "False", error.reason, error.message, moment, probed=False)
    return with_condition(conditions, new)


def volumes_ready(conditions: list[Json], data_volumes: Sequence[Json]) -> list[Json]:
    """Return an instance's conditions with DataVolumesReady, which nothing changes once the volumes are gone."""
    if not data_volumes:
        return conditions
    states = [str((condition(dv, "Ready") or {}).get("status", "Unknown")) for dv in data_volumes]
    status = next((state for state in ("False", "Unknown") if state in states), "True")
    said = "All of the VMI's DVs are bound and ready" if status == "True" else "Not all of the VMI's DVs are ready"
    reason = "AllDVsReady" if status == "True" else "NotAllDVsReady"
    new = {"type": "DataVolumesReady", "status": status, "reason": reason, "message": said, **UNTIMED}
    return with_condition(conditions, new)


def image_error(pod: Json) -> SyncError | None:
    """Return why a launcher's container waits for its image, None when none does."""
    for container in dig(pod, "status", "containerStatuses") or []:
        waiting = dig(container, "state", "waiting") or {}
        if waiting.get("reason") in IMAGE_ERRORS:
            return SyncError(waiting["reason"], waiting.get("message", ""))
    return None


def unpaused_condition(vmi: Json, pod: Json, moment: datetime) -> list[Json] | None:
    """Return the condition by which a pod's readiness gate follows its instance, as a list; None when it does."""
    paused = is_condition(vmi, PAUSED, "True")
    status, reason, said = ("False", "Paused", "paused") if paused else ("True", "NotPaused", "not paused")
    if is_condition(pod, UNPAUSED, status):
        return None
    return [new_condition(UNPAUSED, status, reason, f"the virtual machine is {said}", moment)]
