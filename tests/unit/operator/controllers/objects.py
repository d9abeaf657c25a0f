"""Machines, Clusters and ClusterDeployments as an API server returns them, for controllers' tests."""

from __future__ import annotations

from typing import Any

from harness.machines.programs import ProbedFacts
from tests.unit.operator.api import objects

Json = dict[str, Any]
UID = "uid-of-one"
CLAIM = {"cluster": "one", "set": "cp", "uid": UID}


def condition(kind: str, status: str, reason: str = "Some", message: str = "said", generation: int | None = 1) -> Json:
    """Return a condition."""
    found = {"type": kind, "status": status, "reason": reason, "message": message}
    found["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    return found if generation is None else {**found, "observedGeneration": generation}


def machine(name: str = "m-0", *conditions: Json, made: str = "2026-01-01T00:00:00Z", **spec: Any) -> Json:
    """Return a Machine of the pool with these conditions."""
    found = objects.machine(name, "ns", **spec)
    found["metadata"] |= {
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": "7",
        "creationTimestamp": made,
        "labels": {"rack": "a"},
    }
    found["status"] = {"conditions": list(conditions)}
    return found


def idle(name: str = "m-0", **more: Any) -> Json:
    """Return a Machine that can be claimed."""
    found = machine(name, condition("Reachable", "True"), condition("Empty", "True", "Bare"), **more)
    found["status"] |= {"phase": "Idle", "facts": {"machineID": f"id-{name}"}}
    return found


def cluster(*applied: str, operation: Json | None = None, history: tuple[Json, ...] = (), uid: str = UID) -> Json:
    """Return Cluster `one` with machines in it."""
    owner = {"kind": "ClusterDeployment", "name": "one", "uid": uid, "controller": True}
    status = {
        "applied": {"machines": list(applied)} if applied else None,
        "operation": operation,
        "history": list(history),
    }
    return {"metadata": {"name": "one", "namespace": "ns", "ownerReferences": [owner]}, "status": status}


def past(operation: str, outcome: str) -> Json:
    """Return an operation that ended."""
    return {"sequence": 1, "operation": operation, "outcome": outcome}


def facts(machine_id: str = "id", *traces: str) -> ProbedFacts:
    """Return what a probe found."""
    return ProbedFacts("Debian GNU/Linux 13 (trixie)", 2, 2048, machine_id, traces)
