"""What was deployed, as a Cluster remembers it: versions, settings, and each machine as it was reached."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import StatusModel
from harness.operator.api.base import FreeForm, Line, ObjectName
from harness.operator.api.machine import KeyRef

Digest = Annotated[str, StringConstraints(max_length=128)]
Words = Annotated[tuple[Line, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]


class AppliedHost(StatusModel):
    """One machine of the cluster: all that an operation needs to reach it, also when its Machine is gone."""

    name: Line = Field(description="Its name in the inventory, and as a node.")
    machine: Line = Field(description="Its Machine.")
    set_name: Line = Field(alias="set", default="", description="The set that it was claimed for.")
    groups: Words = Field(default=(), description="Its groups in the inventory.")
    address: Line = Field(description="IP address at which other machines reach it.")
    port: int = Field(default=22, description="Port of its SSH server.")
    user: Line = Field(default="root", description="User who logs in.")
    key: KeyRef = Field(description="The Secret that has the private SSH key.")
    through: Line = Field(default="", description="VirtualMachineInstance that connections lead through.")
    made: bool = Field(default=False, description="Whether the operator made the machine.")


class UnsettledState(StatusModel):
    """What operations that did not succeed may have done half, since the last one that put it right."""

    parts: Words = Field(default=(), description="Parts of the cluster that may differ from what was applied.")
    hosts: tuple[AppliedHost, ...] = Field(default=(), description="Machines that may have joined half.")
    leaving: Words = Field(default=(), description="Machines that may have left half.")
    lost: Words = Field(default=(), description="Machines that a recovery which did not succeed took for lost.")
    why: Line = Field(default="", description="The last of these operations.")


class AppliedState(StatusModel):
    """What was last applied with success."""

    digest: Digest = Field(default="", description="Digest of the whole wish at that time.")
    version: str = Field(default="", description="Kubernetes version.")
    machines: Words = Field(default=(), description="Machines of the cluster.")
    hosts: tuple[AppliedHost, ...] = Field(default=(), description="How each of them is reached.")
    digests: dict[str, Digest] = Field(default_factory=dict, description="Digest of each part, by the part's name.")
    variables: FreeForm = Field(default_factory=dict, description="Variables that the playbooks were given.")
    restored: ObjectName | None = Field(default=None, description="EtcdBackup that etcd was last restored from.")
