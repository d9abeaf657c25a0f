"""What the infrastructure would say of Machines that are virtual machines, written by a test."""

from __future__ import annotations

from typing import Any

from harness.kube.client import ApiFailure, Json
from harness.kube.objects import now
from harness.operator.api.resources import MACHINE
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.unit.operator.api.objects import wanted_set

IMAGE = {"url": "http://192.0.2.1/debian.qcow2", "checksum": "sha256:" + "a" * 64}


def made_set(replicas: int = 1, name: str = "w", *roles: str, **more: Any) -> Json:
    """Return a set whose machines are made."""
    kubevirt = {"image": IMAGE, "cpus": 1, "memory": "512Mi", "disk": "10Gi", **more}
    return wanted_set(name, *(roles or ("worker",)), replicas=replicas, kubevirt=kubevirt)


def infrastructure(declared: Declared, name: str, status: str, reason: str, **infrastructure: str) -> None:
    """Write the condition InfrastructureReady of a Machine."""
    own = {"type": "InfrastructureReady", "status": status, "reason": reason, "message": "played"}

    def write() -> bool | NotYet:
        found = declared.get(name)
        conditions = (found.get("status") or {}).get("conditions") or []
        others = [one for one in conditions if one["type"] != "InfrastructureReady"]
        wanted: Json = {"conditions": [*others, {**own, "lastTransitionTime": now()}]}
        if infrastructure:
            wanted["infrastructure"] = infrastructure
        patch = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "status": wanted}
        try:
            declared.api.merge(MACHINE, name, patch, declared.namespace, subresource="status")
        except ApiFailure as failure:
            return NotYet(failure.summary)
        return True

    until(write, deadline=Deadline.after(WAIT_SECONDS), what=f"{reason} of {name} to be written", interval=INTERVAL)


def runs(declared: Declared, name: str) -> None:
    """Let a machine that is made run, as another machine than all others."""
    address = f"192.0.2.{int(name.rpartition('-')[2]) + 100}"
    infrastructure(declared, name, "True", "Running", address=address, instance=f"vmi-{name}", disk=f"pvc-{name}")
