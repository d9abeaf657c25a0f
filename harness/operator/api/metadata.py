"""What the models read of an object's metadata, and the rules of names that become other names."""

from __future__ import annotations

from pydantic import Field

from harness.operator.api.base import Cel, StatusModel

NAME_LENGTH = 30  # CLUSTER-SEQUENCE-OPERATION-ATTEMPT names Jobs, whose names have at most 63 characters
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
HOST_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
CLUSTER_NAME = Cel(
    f"self.metadata.name.size() <= {NAME_LENGTH} && self.metadata.name.matches('{NAME_PATTERN}')",
    "the name is too long or has other letters than the names of its Jobs may have",
    f"use at most {NAME_LENGTH} lower-case letters, digits and '-', a letter first",
    ".metadata.name",
)
MACHINE_NAME = Cel(
    f"has(self.spec.hostname) || (self.metadata.name.size() <= 63 && self.metadata.name.matches('{HOST_PATTERN}'))",
    "the name is no hostname",
    "set spec.hostname, or use at most 63 lower-case letters, digits and '-'",
    ".metadata.name",
)


class Metadata(StatusModel):
    """Metadata as far as controllers decide by it."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
