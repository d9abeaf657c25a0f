"""Settings of a declared cluster's etcd: flags, when and where it is backed up, and what it is restored from."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from harness.kube.kinds.cel import Cel
from harness.kube.kinds.models import ApiModel, part
from harness.operator.api.base import ObjectName
from harness.operator.api.components import Flags

NO_DESTINATION = Cel(
    "!self.beforeDisruption || has(self.destination)",
    "backups before a disruption need a place",
    "set destination.claim to the name of a PersistentVolumeClaim",
    ".destination",
    holds=lambda backup: not backup.before_disruption or backup.destination is not None,
)


class BackupDestination(ApiModel):
    """Where snapshots are put."""

    claim: ObjectName = Field(description="PersistentVolumeClaim of the same namespace.")


class EtcdBackupPolicy(ApiModel):
    """When and where etcd is backed up."""

    cel: ClassVar[tuple[Cel, ...]] = (NO_DESTINATION,)
    before_disruption: bool = Field(default=False, description="Take a backup before every upgrade.")
    destination: BackupDestination | None = Field(
        default=None, description="Where snapshots are put whose EtcdBackup does not say it."
    )
    keep: int = Field(
        default=3, ge=1, le=50, description="How many backups are kept of those that the operator made by itself."
    )


class EtcdSettings(Flags):
    """Settings of etcd."""

    backup: EtcdBackupPolicy = part(EtcdBackupPolicy, "When and where etcd is backed up.")
    restore_from: ObjectName | None = Field(
        default=None, description="EtcdBackup to restore, once etcd has lost its quorum; it is restored when confirmed."
    )
