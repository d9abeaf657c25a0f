"""What `kubectl get` shows of each kind; `wide` columns are those of `-o wide`."""

from __future__ import annotations

from harness.operator.api.base import Schema

Columns = tuple[Schema, ...]


def column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Schema:
    """Return one column: its name, and where its text stands in the object."""
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}


def _condition(kind: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


AGE = column("Age", ".metadata.creationTimestamp", "date")
CLUSTER_DEPLOYMENT_COLUMNS: Columns = (
    column("Version", ".status.version"),
    column("Wanted", ".spec.version"),
    column("Ready", _condition("Ready")),
    column("Machines", ".status.machines"),
    column("Doing", _condition("Progressing", "reason")),
    AGE,
    column("Reason", _condition("Ready", "message"), wide=True),
    column("API", ".status.endpoint", wide=True),
)
CLUSTER_COLUMNS: Columns = (
    column("Operation", ".status.operation.operation"),
    column("Attempt", ".status.operation.attempt", "integer"),
    column("Play", ".status.operation.play"),
    column("Last", ".status.history[0].operation"),
    column("Outcome", ".status.history[0].outcome"),
    AGE,
    column("Task", ".status.operation.task", wide=True),
    column("Job", ".status.operation.job", wide=True),
    column("Summary", ".status.history[0].summary", wide=True),
)
MACHINE_SET_COLUMNS: Columns = (
    column("Roles", ".spec.roles"),
    column("Wanted", ".status.wanted", "integer"),
    column("Claimed", ".status.claimed", "integer"),
    column("Deployed", ".status.deployed", "integer"),
    column("Ready", ".status.ready", "integer"),
    AGE,
    column("Execution", ".status.executions", wide=True),
    column("Waits", _condition("MachinesClaimed", "message"), wide=True),
)
MACHINE_COLUMNS: Columns = (
    column("Phase", ".status.phase"),
    column("Address", ".spec.address"),
    column("Cluster", ".spec.claim.cluster"),
    column("Set", ".spec.claim.set"),
    column("Version", ".status.node.version"),
    AGE,
    column("Roles", ".status.roles", wide=True),
    column("OS", ".status.facts.os", wide=True),
    column("CPUs", ".status.facts.cpus", "integer", wide=True),
    column("MiB", ".status.facts.memoryMiB", "integer", wide=True),
    column("Login", _condition("Reachable", "message"), wide=True),
    column("Empty", _condition("Empty", "message"), wide=True),
    column("Node", _condition("NodeReady", "message"), wide=True),
)
