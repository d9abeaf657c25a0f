"""Conditions of the kinds: their schema, and setting them so that a time changes only when the status does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from harness.kube.client import Json
from harness.kube.kinds.models import StatusModel, listed
from harness.kube.objects import stamp, with_condition

ACCEPTED, PROGRESSING, DEGRADED = "Accepted", "Progressing", "Degraded"
MACHINES_READY, CONTROL_PLANE_READY, READY = "MachinesReady", "ControlPlaneReady", "Ready"
FAILED, PRUNED, PROVEN = "Failed", "Pruned", "Proven"  # of an EtcdBackup
RESTORED = "Restored"  # of an EtcdRestore
ADDONS_READY = "AddonsReady"
BACKUP_FRESH = "BackupFresh"
BACKUP_PROVEN = "BackupProven"
ETCD_HEALTHY = "EtcdHealthy"
ETCD_AVAILABLE = "EtcdAvailable"  # of a ClusterDeployment that names an EtcdCluster
ENDPOINT_READY = "EndpointReady"
AUTHORITY_VALID, NETWORKS_ALLOCATED = "AuthorityValid", "NetworksAllocated"
NETWORK_ISOLATED = "NetworkIsolated"
SPREAD = "Spread"  # of a MachineSet, and of a ClusterDeployment with such sets
AVAILABLE = "Available"  # of a ClusterNetworkPool
REACHABLE, EMPTY, NODE_READY = "Reachable", "Empty", "NodeReady"
# Of machines of a cluster: a login, what was last applied, and health.
ANSWERING, SETTINGS_AS_APPLIED = "Answering", "SettingsAsApplied"
HEALTHY, REMEDIATING = "Healthy", "Remediating"
INFRASTRUCTURE_READY = "InfrastructureReady"
MESSAGE_LENGTH = 32768  # of metav1.Condition
Said = tuple[bool | None, str, str]  # a condition's status, reason and message


class Condition(StatusModel):
    """One condition, with the fields of metav1.Condition."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(description="What the condition is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: int | None = Field(default=None, ge=0, description="Generation of the object it is about.")
    last_transition_time: str = Field(
        description="When the status last changed.", json_schema_extra={"format": "date-time"}
    )
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024)] = (
        Field(description="Why, as one word for programs.")
    )
    message: Annotated[str, StringConstraints(max_length=MESSAGE_LENGTH)] = Field(description="Why, for people.")


def conditions(description: str) -> tuple[Condition, ...]:
    """Return the field of a status' conditions."""
    made: tuple[Condition, ...] = listed(description, key="type", default=())
    return made


def new(kind: str, status: bool | None, reason: str, message: str, moment: datetime, generation: int | None) -> Json:
    """Return a condition that turns at a moment; `status` None is Unknown."""
    word = "Unknown" if status is None else str(status)
    made: Json = {"type": kind, "status": word, "reason": reason, "message": message[:MESSAGE_LENGTH]}
    made["lastTransitionTime"] = stamp(moment)
    return made if generation is None else {**made, "observedGeneration": generation}


def with_conditions(conditions_before: Sequence[Json], *changes: Json) -> list[Json]:
    """Return conditions with some set: in their old places, new ones behind; the time stays while the status does."""
    made = list(conditions_before)
    for change in changes:
        made = with_condition(made, change)
    return made
