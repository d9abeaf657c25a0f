"""Instances and pods for the tests of the VMI controller."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def vmi(phase: str = "Pending", *, volumes: list[Json] | None = None, conditions: list[Json] | None = None) -> Json:
    return {
        "metadata": {"name": "cp-0", "namespace": "cell-a", "uid": "d8d2366e-49ef-4631-9c22-1a478235b29e"},
        "spec": {"domain": {"cpu": {"cores": 2}, "memory": {"guest": "2Gi"}, "devices": {}}, "volumes": volumes or []},
        "status": {"phase": phase, "conditions": conditions or []},
    }


def pod(phase: str = "Pending", *, node: str = "", conditions: list[Json] | None = None, ready: bool = True) -> Json:
    spec = {"nodeName": node} if node else {}
    containers = [{"name": "compute", "ready": ready}] if phase == "Running" else []
    status = {"phase": phase, "conditions": conditions or [], "containerStatuses": containers}
    return {"metadata": {"uid": "p1", "name": "virt-launcher-cp-0-abcde"}, "spec": spec, "status": status}
