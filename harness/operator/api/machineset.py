"""MachineSet: one set of a ClusterDeployment, derived from it. Controllers write it, nobody else does."""

from __future__ import annotations

from pydantic import Field

from harness.operator.api.base import ApiModel, StatusModel
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.metadata import Metadata
from harness.operator.api.sets import WantedSet


class MachineSetStatus(StatusModel):
    """How far the set's machines are."""

    observed_generation: int | None = Field(default=None, description="Generation that the status is about.")
    wanted: int = Field(default=0, description="How many machines are wanted.")
    claimed: int = Field(default=0, description="How many are claimed.")
    deployed: int = Field(default=0, description="How many are deployed.")
    ready: int = Field(default=0, description="How many are ready nodes or members.")
    executions: str | None = Field(default=None, description="The executor that works on them, or the last one.")
    conditions: tuple[Condition, ...] = conditions("MachinesClaimed.")


class MachineSet(ApiModel):
    """One set of a ClusterDeployment's machines. Derived: edit the ClusterDeployment instead."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata
    spec: WantedSet = Field(description="The set, as in the ClusterDeployment.")
    status: MachineSetStatus = Field(default_factory=MachineSetStatus, description="How far the set's machines are.")
