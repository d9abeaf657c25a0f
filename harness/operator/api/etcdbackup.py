"""EtcdBackup: the wish for one snapshot of a cluster's etcd, and what became of it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, unchanged
from harness.operator.api.base import Line, ObjectName
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.etcd import BackupDestination

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


BackupPhase = Literal["Pending", "Waiting", "Running", "Verified", "Failed", "Missing"]
VERIFIED, MISSING = "Verified", "Missing"
NAME_LENGTH = 63  # it names a file
BACKUP_NAME = Cel(
    f"self.metadata.name.size() <= {NAME_LENGTH}",
    "the name is too long for a file's",
    f"use at most {NAME_LENGTH} characters",
    ".metadata.name",
    holds=lambda backup: len(backup.metadata.name) <= NAME_LENGTH,
)
SAME_DESTINATION = Cel(
    "has(self.destination) == has(oldSelf.destination) && "
    "(!has(self.destination) || self.destination == oldSelf.destination)",
    "destination cannot change",
    "make another EtcdBackup",
    ".destination",
)


class EtcdBackupSpec(ApiModel):
    """What is backed up, and where to."""

    cel: ClassVar[tuple[Cel, ...]] = (unchanged(".cluster", "make another EtcdBackup"), SAME_DESTINATION)
    cluster: ObjectName = Field(description="ClusterDeployment whose etcd is backed up; cannot change.")
    destination: BackupDestination | None = Field(
        default=None, description="Where the snapshot is put; default: spec.etcd.backup.destination of the cluster."
    )


class EtcdBackupStatus(SnapshotFacts):
    """What became of the backup."""

    phase: BackupPhase | None = Field(default=None, description="Where it is in its life.")
    location: Line | None = Field(default=None, description="Where the snapshot lies: CLAIM:FILE.")
    volume: Line | None = Field(default=None, description="PersistentVolume of that claim.")
    verified: Moment = Field(default=None, description="When it was known to be whole.")
    cluster_uid: Line | None = Field(default=None, description="UID of the ClusterDeployment that it was taken of.")
    conditions: tuple[Condition, ...] = conditions("Verified, Failed.")


class EtcdBackup(ObjectModel):
    """A snapshot of a cluster's etcd: the operator takes it once, verifies it, and keeps it in a claim."""

    cel: ClassVar[tuple[Cel, ...]] = (BACKUP_NAME,)
    spec: EtcdBackupSpec = Field(description="What is backed up, and where to.")
    status: EtcdBackupStatus = Field(default_factory=EtcdBackupStatus, description="What became of the backup.")
