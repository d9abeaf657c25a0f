"""Faults of instances and launcher pods: in what the scheduler is asked for, and in what kubelet and agent write."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.embedded.faults.catalogue import Faults
from harness.embedded.node.pods import container_status
from harness.kube.client import Json
from harness.kube.objects import dig, parse_time, stamp, with_condition

MOVED_TO = "00000000-0000-4000-8000-"  # begins the uid of the launcher that an instance moved to
HELD = "held"


def reported_status(faults: Faults, vmi: Json) -> Json | None:
    """Return the status that a running instance is to have in place of its own; None when it has it already."""
    status: Json = copy.deepcopy(vmi["status"])
    moment = datetime.now(UTC)
    asked = faults.of(vmi, "address")
    if asked is not None and asked["reported"]:
        _set_address(status, str(asked["reported"]))
    _connect_agent(faults, vmi, status, moment)
    _move(faults, vmi, status, moment)
    return None if status == vmi["status"] else status


def _connect_agent(faults: Faults, vmi: Json, status: Json, moment: datetime) -> None:
    asked = faults.of(vmi, "agent")
    if asked is None or _instance_running_for(vmi, moment) < float(asked["after"]):
        return
    times = {"lastProbeTime": stamp(moment), "lastTransitionTime": None}
    connected = {"type": "AgentConnected", "status": "True", **times}
    status["conditions"] = with_condition(status.get("conditions") or [], connected)
    status["guestOSInfo"] = {"id": "debian", "name": "Debian GNU/Linux", "version": "13"}
    _set_address(status, str(asked["address"]))
    for interface in status.get("interfaces") or []:
        interface["infoSource"] = "domain, guest-agent"


def _move(faults: Faults, vmi: Json, status: Json, moment: datetime) -> None:
    asked = faults.of(vmi, "moves")
    if asked is None or _instance_running_for(vmi, moment) < float(asked["after"]):
        return
    source = next(iter(dig(vmi, "status", "activePods") or {"": ""}))
    if source.startswith(MOVED_TO):
        return
    target = MOVED_TO + vmi["metadata"]["uid"][-12:]
    status["activePods"] = {target: asked["node"]}
    status["migrationState"] = {
        "sourceNode": status.get("nodeName", ""),
        "targetNode": asked["node"],
        "completed": True,
        "startTimestamp": stamp(moment),
        "endTimestamp": stamp(moment),
        "mode": "PreCopy",
    }
    status["nodeName"] = asked["node"]
    _set_address(status, str(asked["address"]))


def _set_address(status: Json, address: str) -> None:
    for interface in (status.get("interfaces") or [])[:1]:
        interface |= {"ipAddress": address, "ipAddresses": [address]}


def _instance_running_for(vmi: Json, moment: datetime) -> float:
    entered = {t["phase"]: t["phaseTransitionTimestamp"] for t in dig(vmi, "status", "phaseTransitionTimestamps") or []}
    return (moment - parse_time(entered["Running"])).total_seconds() if "Running" in entered else 0.0


def with_requests(faults: Faults, pod: Json) -> Json:
    """Return the launcher pod to create: with a wish that no node can fulfil, where that is asked for."""
    asked = faults.of(pod, "unschedulable")
    if asked is None:
        return pod
    changed = copy.deepcopy(pod)
    if asked["cpu_model"]:
        changed["spec"]["nodeSelector"][f"cpu-model.node.kubevirt.io/{asked['cpu_model']}"] = "true"
        return changed
    resources = changed["spec"]["containers"][0]["resources"]
    for part in ("limits", "requests"):
        resources[part] = {**resources[part], asked["resource"]: str(asked["amount"])}
    return changed


def not_started(faults: Faults, pod: Json) -> str | Json:
    """Return why a bound launcher is not started: "" when it is, "held" when nothing is to be seen, else its status."""
    if faults.has(pod, "launcher-stuck"):
        return HELD
    asked = faults.of(pod, "image-pull")
    return "" if asked is None else _waiting(pod, asked)


def _waiting(pod: Json, asked: Mapping[str, Any]) -> Json:
    """Return the status of a pod whose containers wait for their image, as a kubelet writes it."""
    status = {k: v for k, v in (pod.get("status") or {}).items() if k in {"conditions", "qosClass", "hostIP"}}
    containers = []
    for container in pod["spec"]["containers"]:
        message = str(asked["message"]).replace("{image}", container["image"])
        containers.append(container_status(container, {"waiting": {"reason": asked["reason"], "message": message}}))
    return {**status, "phase": "Pending", "containerStatuses": containers}


def crashes(faults: Faults, pod: Json) -> Mapping[str, Any] | None:
    """Return how a running launcher is to end now: exit_code, reason and message; None when it is not."""
    return _due(faults, pod, "launcher-crashes")


def _due(faults: Faults, pod: Json, name: str) -> Mapping[str, Any] | None:
    asked = faults.of(pod, name)
    return asked if asked is not None and _running_for(pod) >= float(asked["after"]) else None


def vanishes(faults: Faults, pod: Json) -> bool:
    """Tell whether a running launcher is to be gone now, without its instance learning of it."""
    return _due(faults, pod, "launcher-vanishes") is not None


def next_look(faults: Faults, pod: Json) -> float | None:
    """Return the seconds after which a running launcher is to be looked at again, None when nothing is planned."""
    planned = (faults.of(pod, name) for name in ("launcher-crashes", "launcher-vanishes"))
    after = [float(asked["after"]) for asked in planned if asked is not None]
    return max(0.1, min(after) - _running_for(pod)) if after else None


def addresses(faults: Faults, pod: Json, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses that a launcher gets: those that it was given, or a useless one, or none."""
    asked = faults.of(pod, "address")
    if asked is None or not asked["pod"]:
        return given
    return () if asked["pod"] == "none" else (str(asked["pod"]),)


def _running_for(pod: Json) -> float:
    statuses = dig(pod, "status", "containerStatuses") or [{}]
    started = dig(statuses[0], "state", "running", "startedAt")
    return (datetime.now(UTC) - parse_time(started)).total_seconds() if started else 0.0
