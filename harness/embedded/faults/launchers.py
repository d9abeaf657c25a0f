"""What befalls launcher pods: in what they ask of the scheduler, and in what the kubelet writes on them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.embedded.faults.asked import Faults
from harness.embedded.node.pods import container_status
from harness.kube.client import Json
from harness.kube.objects import dig, parse_time

HELD = "held"


def asking(faults: Faults, pod: Json) -> Json:
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


def crash(faults: Faults, pod: Json) -> Mapping[str, Any] | None:
    """Return how a running launcher is to end now: exit_code, reason and message; None when it is not."""
    return _now(faults, pod, "launcher-crashes")


def _now(faults: Faults, pod: Json, name: str) -> Mapping[str, Any] | None:
    asked = faults.of(pod, name)
    return asked if asked is not None and _running_for(pod) >= float(asked["after"]) else None


def vanishes(faults: Faults, pod: Json) -> bool:
    """Tell whether a running launcher is to be gone now, without its instance learning of it."""
    return _now(faults, pod, "launcher-vanishes") is not None


def due(faults: Faults, pod: Json) -> float | None:
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
