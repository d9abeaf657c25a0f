"""An instance's next status, given its launcher pod: what KubeVirt's virt-controller writes, as a pure function.

What the node agent writes (Running, how it ended, why its machine does not boot) is in vmi/agent.py.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime

from harness.embedded.vm.strategy import is_final
from harness.embedded.vm.volumes import claim_name
from harness.embedded.vmi.conditions import SyncError, ready, scheduled, synchronized, volumes_ready
from harness.embedded.vmi.containers import IMAGE
from harness.embedded.vmi.overhead import in_mib, memory_overhead
from harness.kube.client import Json
from harness.kube.objects import deleting, dig, phase, stamp

NODE_LABEL = "kubevirt.io/nodeName"


def next_status(
    vmi: Json, pod: Json | None, moment: datetime, error: SyncError | None, data_volumes: Sequence[Json] = ()
) -> Json:
    """Return the whole status of an instance.

    Args:
        pod: its launcher.
        error: why it could not be brought on.
        data_volumes: those that fill its volumes.
    """
    status = copy.deepcopy(vmi.get("status") or {})
    before = phase(vmi)
    after = _next_phase(vmi, pod)
    if after != before:
        enter(status, after, moment)
    if pod is not None:
        status["activePods"] = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")}
    elif status.get("activePods"):
        status["activePods"] = {}
    if after == "Scheduling" and before in {"", "Pending"} and pod is not None:
        status.setdefault("memory", {})["memoryOverhead"] = in_mib(memory_overhead(vmi["spec"]))
        status["launcherContainerImageVersion"] = IMAGE
    elif before == "Scheduling" and pod is not None and dig(pod, "status", "qosClass"):
        status["qosClass"] = pod["status"]["qosClass"]
    conditions = ready(status.get("conditions") or [], after, pod, moment)
    conditions = volumes_ready(conditions, data_volumes)
    conditions = scheduled(conditions, before, pod)
    conditions = synchronized(conditions, error, moment)
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
    containers = dig(pod, "status", "containerStatuses")
    runs = phase(pod) == "Running" and containers and all(c.get("ready") for c in containers)
    return "Scheduled" if now == "Scheduling" and runs and not deleting(pod) else now


def placed(status: Json, vmi: Json, pod: Json, claims: dict[str, Json]) -> None:
    """Add what an instance gets when it becomes Scheduled: its node, interfaces, volumes; `claims` by name."""
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
    name = claim_name(volume)
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
