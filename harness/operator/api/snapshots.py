"""Snapshots of etcd as the kinds speak of them: where one lies, and what was found out about it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import StatusModel
from harness.operator.api.base import Line, ObjectName

SNAPSHOT_FILE = "{cluster}/{backup}.db"  # within a claim; several clusters may share one
SnapshotFile = Annotated[str, StringConstraints(max_length=128)]
Moment = Annotated[str | None, Field(json_schema_extra={"format": "date-time"})]


class SnapshotFacts(StatusModel):
    """What was found out about a snapshot when it was read back."""

    revision: int | None = Field(default=None, description="Revision of etcd's data.")
    hash: int | None = Field(default=None, description="Hash of the data, as etcdutl says it.")
    size_bytes: int | None = Field(default=None, description="Size of the file.")
    keys: int | None = Field(default=None, description="How many keys it has.")
    member: Line | None = Field(default=None, description="Machine whose member it was taken of.")
    etcd_version: Line | None = Field(default=None, description="Version of etcd.")
    sha256: Line | None = Field(default=None, description="SHA-256 of the file.")
    taken: Moment = Field(default=None, description="When it was taken.")


class SnapshotPlace(StatusModel):
    """The EtcdBackup that a snapshot is of, and where it lies."""

    backup: ObjectName = Field(description="EtcdBackup.")
    uid: Line = Field(default="", description="UID of the EtcdBackup.")
    claim: ObjectName = Field(description="PersistentVolumeClaim.")
    file: SnapshotFile = Field(description="File within the claim.")


class OperationSnapshot(SnapshotPlace):
    """The snapshot that an operation takes or restores."""

    forget: Annotated[tuple[SnapshotFile, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})] = Field(
        default=(), description="Files within the claim whose EtcdBackups are gone; the operation deletes them."
    )


class TakenSnapshot(SnapshotPlace, SnapshotFacts):
    """A snapshot that was taken, and that lies where it was put."""
