"""EtcdBackup: the wish for one snapshot of a cluster's etcd, and what became of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from harness.kube.kinds.cel import Cel, unchanged
from harness.kube.kinds.models import ApiModel, ObjectModel
from harness.operator.api.base import Line, ObjectName
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.etcd import BackupDestination
from harness.operator.api.snapshots import Moment, SnapshotFacts

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
