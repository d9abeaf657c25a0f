"""How a machine of a cluster is: its certificates, the files that the playbooks own, and what was done to repair it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from harness.kube.kinds.models import StatusModel
from harness.operator.api.base import Line

Words = Annotated[tuple[Line, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]
Time = Annotated[str | None, Field(json_schema_extra={"format": "date-time"})]
FILES = 100  # a control plane has 20 to 25 of the playbooks' files


class MachineCertificates(StatusModel):
    """When certificates on the machine expire."""

    first_expiry: Time = Field(default=None, description="When the first one expires that an operation can renew.")
    file: Line | None = Field(default=None, description="File with that certificate.")
    other_expiry: Time = Field(default=None, description="When the first of all others expires.")
    other_file: Line | None = Field(default=None, description="File with that other certificate.")


class MachineSettings(StatusModel):
    """What the last operation that wrote settings has left in the files that the playbooks own."""

    seen: Line = Field(default="", description="The last operation that had ended before the look, whatever it did.")
    operation: Line = Field(default="", description="The operation, as SEQUENCE-ATTEMPT.")
    files: Words = Field(
        default=(), max_length=FILES, description="First 16 digits of the SHA-256 of each file, and its path."
    )
    changed: Words = Field(
        default=(), max_length=FILES, description="The same of files that were changed since; - for one that is gone."
    )


class MachineRemediation(StatusModel):
    """A restart of the machine, which is not repeated before the node was ready again."""

    step: Line = Field(default="", description="What was done: Restart.")
    at: Time = Field(default=None, description="When it was decided.")
    instance: Line | None = Field(default=None, description="UID of the instance that was to end.")
