"""An instance's next status, given its launcher pod: what KubeVirt's virt-controller writes, as a pure function.

What the node agent writes (Running, how it ended, why its machine does not boot) is in vmi/agent.py.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import datetime

from harness.embedded.objects import (
    condition,
    deleting,
    dig,
    is_condition,
    new_condition,
    phase,
    stamp,
    with_condition,
    without_condition,
)
from harness.embedded.vm.strategy import is_final
from harness.embedded.vmi.launcher import IMAGE
from harness.embedded.vmi.overhead import in_mib, memory_overhead
from harness.kube.client import Json

NODE_LABEL = "kubevirt.io/nodeName"
UNPAUSED = "kubevirt.io/virtual-machine-unpaused"
PAUSED = "Paused"

IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff"})


@dataclass(frozen=True)
class SyncError:
    """Why an instance cannot go on: a condition's reason and message, and the event's type."""

    reason: str
    message: str
    event: str = "Warning"


def next_status(vmi: Json, pod: Json | None, moment: datetime, error: SyncError | None) -> Json:
    """Return the whole status of an instance.

    Args:
        pod: its launcher pod, None when there is none.
        error: why it could not be brought further, None when nothing is wrong.
    """
    status = copy.deepcopy(vmi.get("status") or {})
    before = phase(vmi)
    after = _next_phase(vmi, pod)
    if after != before:
        enter(status, after, moment)
    _pods(status, vmi, pod)
    if after == "Scheduling" and before in {"", "Pending"} and pod is not None:
        status.setdefault("memory", {})["memoryOverhead"] = in_mib(memory_overhead(vmi["spec"]))
        status["launcherContainerImageVersion"] = IMAGE
    elif before == "Scheduling" and pod is not None and dig(pod, "status", "qosClass"):
        status["qosClass"] = pod["status"]["qosClass"]
    conditions = status.get("conditions") or []
    conditions = _ready(conditions, after, pod, moment)
    conditions = _scheduled(conditions, before, pod)
    conditions = _synchronized(conditions, error, moment)
    if conditions:
        status["conditions"] = conditions
    return status


def enter(status: Json, new: str, moment: datetime) -> None:
    """Set a phase and write down when."""
    status["phase"] = new
    transitions = status.setdefault("phaseTransitionTimestamps", [])
    if all(t["phase"] != new for t in transitions):
        transitions.append({"phase": new, "phaseTransitionTimestamp": stamp(moment)})


def _next_phase(vmi: Json, pod: Json | None) -> str:
    now = phase(vmi) or "Pending"
    if is_final(vmi):
        return now
    if pod is None:
        return "Failed" if deleting(vmi) or now in {"Scheduling", "Scheduled", "Running"} else now
    if phase(pod) in {"Failed", "Succeeded"}:
        return "Failed"
    if now == "Pending":
        return "Scheduling"
    if now == "Scheduling" and not deleting(pod) and phase(pod) == "Running" and _containers_ready(pod):
        return "Scheduled"
    return now


def _containers_ready(pod: Json) -> bool:
    found = dig(pod, "status", "containerStatuses") or []
    return bool(found) and all(c.get("ready") for c in found)


def _pods(status: Json, vmi: Json, pod: Json | None) -> None:
    """Keep `activePods`: the launcher's uid and its node."""
    if pod is not None:
        status["activePods"] = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")}
    elif dig(vmi, "status", "activePods"):
        status["activePods"] = {}


def _ready(conditions: list[Json], after: str, pod: Json | None, moment: datetime) -> list[Json]:
    if after == "Pending" and pod is None:
        return conditions
    known = condition(pod, "Ready")
    if pod is None:
        new = new_condition("Ready", "False", "PodNotExists", "virt-launcher pod has not yet been scheduled", moment)
    elif deleting(pod):
        new = new_condition("Ready", "False", "PodTerminating", "virt-launcher pod is terminating", moment)
    elif after != "Running":
        new = new_condition("Ready", "False", "GuestNotRunning", "Guest VM is not reported as running", moment)
    elif known is None:
        new = new_condition(
            "Ready", "False", "PodConditionMissing", "virt-launcher pod is missing the Ready condition", moment
        )
    else:
        new = {k: known[k] for k in ("type", "status", "reason", "message", "lastTransitionTime") if k in known}
        new["lastProbeTime"] = known.get("lastProbeTime")
    return with_condition(conditions, new)


def _scheduled(conditions: list[Json], before: str, pod: Json | None) -> list[Json]:
    """Mirror an unschedulable pod's condition; its message is not refreshed, and it goes when the pod has a place."""
    known = condition(pod, "PodScheduled")
    if before == "Scheduling" and known is not None and known["status"] == "False":
        if any(c["type"] == "PodScheduled" for c in conditions):
            return conditions
        return with_condition(conditions, copy.deepcopy(known))
    return without_condition(conditions, "PodScheduled")


def _synchronized(conditions: list[Json], error: SyncError | None, moment: datetime) -> list[Json]:
    if error is None:
        return without_condition(conditions, "Synchronized")
    new = new_condition("Synchronized", "False", error.reason, error.message, moment, probed=False)
    return with_condition(conditions, new)


def image_error(pod: Json) -> SyncError | None:
    """Return why a launcher's container waits for its image, None when none does."""
    for container in dig(pod, "status", "containerStatuses") or []:
        waiting = dig(container, "state", "waiting") or {}
        if waiting.get("reason") in IMAGE_ERRORS:
            return SyncError(waiting["reason"], waiting.get("message", ""))
    return None


def placed(status: Json, vmi: Json, pod: Json, claims: dict[str, Json]) -> None:
    """Add what an instance gets when it becomes Scheduled: its node, its interfaces, its volumes.

    Args:
        claims: the existing claims of its volumes, by name.
    """
    status["nodeName"] = pod["spec"]["nodeName"]
    status["migrationTransport"] = "Unix"
    status["interfaces"] = [
        {"name": i["name"], "podInterfaceName": f"eth{n}"}
        for n, i in enumerate(dig(vmi, "spec", "domain", "devices", "interfaces") or [])
    ]
    status["volumeStatus"] = [
        _volume_status(v, claims) for v in sorted(vmi["spec"].get("volumes") or [], key=lambda v: str(v["name"]))
    ]


def _volume_status(volume: Json, claims: dict[str, Json]) -> Json:
    name = dig(volume, "dataVolume", "name") or dig(volume, "persistentVolumeClaim", "claimName")
    found: Json = {"name": volume["name"], "target": ""}
    claim = claims.get(str(name))
    if claim is not None:
        found["persistentVolumeClaimInfo"] = {
            "claimName": name,
            "accessModes": dig(claim, "spec", "accessModes") or [],
            "volumeMode": dig(claim, "spec", "volumeMode") or "Filesystem",
            "capacity": dig(claim, "status", "capacity") or {},
            "requests": dig(claim, "spec", "resources", "requests") or {},
            "filesystemOverhead": "0.06",
        }
    return found


def unpaused_condition(vmi: Json, pod: Json, moment: datetime) -> list[Json] | None:
    """Return the condition by which a pod's readiness gate follows its instance, as a list; None when it does."""
    paused = is_condition(vmi, PAUSED, "True")
    status, reason, said = ("False", "Paused", "paused") if paused else ("True", "NotPaused", "not paused")
    if is_condition(pod, UNPAUSED, status):
        return None
    return [new_condition(UNPAUSED, status, reason, f"the virtual machine is {said}", moment)]
