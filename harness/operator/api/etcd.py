"""Settings of a declared cluster's etcd: flags, when and where it is backed up, and what it is restored from."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from harness.kube.kinds.models import ApiModel, Cel, part
from harness.operator.api.base import ObjectName
from harness.operator.api.components import Flags
from harness.operator.api.sets import CONTROL_PLANE, ETCD, WantedSet

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


EXTERNAL = "'etcd' in s.roles && !('control-plane' in s.roles)"
IS_EXTERNAL = f"self.machineSets.exists(s, {EXTERNAL})"
MEMBERS = f"self.machineSets.filter(s, {EXTERNAL}).map(s, s.replicas).sum()"
CONTROL_PLANES = "self.machineSets.filter(s, 'control-plane' in s.roles).map(s, s.replicas).sum()"
SETS = ".machineSets"


def _external(spec: Any) -> list[WantedSet]:
    return [one for one in spec.machine_sets if one.has(ETCD) and not one.has(CONTROL_PLANE)]


def _members(spec: Any) -> int:
    return sum(one.replicas for one in _external(spec))


def _control_planes(spec: Any) -> int:
    return sum(one.replicas for one in spec.machine_sets if one.has(CONTROL_PLANE))


def _unmixed(spec: Any) -> bool:
    both = any(one.has(ETCD) and one.has(CONTROL_PLANE) for one in spec.machine_sets)
    return not both or all(one.has(ETCD) == one.has(CONTROL_PLANE) for one in spec.machine_sets)


NO_CONTROL_PLANE = Cel(
    f"{CONTROL_PLANES} > 0",
    "no machine is a control plane",
    "give a set with at least one replica the role control-plane",
    SETS,
    holds=lambda spec: _control_planes(spec) > 0,
)
MIXED = Cel(
    "!self.machineSets.exists(s, 'etcd' in s.roles && 'control-plane' in s.roles) || "
    "self.machineSets.all(s, ('etcd' in s.roles) == ('control-plane' in s.roles))",
    "etcd is both stacked and external",
    "give the role etcd to all sets of control planes or to none of them",
    SETS,
    holds=_unmixed,
)
TWO_STACKED = Cel(
    f"{IS_EXTERNAL} || {CONTROL_PLANES} != 2",
    "two control planes would be two etcd members, which stop when either one fails",
    "use one or three control planes, or add a set with the role etcd",
    SETS,
    creating=True,
    holds=lambda spec: bool(_external(spec)) or _control_planes(spec) != 2,
)
EVEN_STACKED = Cel(
    f"{IS_EXTERNAL} || {CONTROL_PLANES} < 4 || {CONTROL_PLANES} % 2 == 1",
    "an even number of control planes is as many etcd members, which stand no more failures than one less",
    "use an odd number of control planes, or add a set with the role etcd",
    SETS,
    creating=True,
    holds=lambda spec: bool(_external(spec)) or _control_planes(spec) < 4 or _control_planes(spec) % 2 == 1,
)
EVEN_MEMBERS = Cel(
    f"{MEMBERS} < 4 || {MEMBERS} % 2 == 1",
    "an even number of etcd members stands no more failures than one less",
    "use an odd number of machines with the role etcd",
    SETS,
    creating=True,
    holds=lambda spec: _members(spec) < 4 or _members(spec) % 2 == 1,
)
TWO_MEMBERS = Cel(
    f"{MEMBERS} != 2",
    "two etcd members stop when either one fails",
    "use one or three machines with the role etcd",
    SETS,
    creating=True,
    holds=lambda spec: _members(spec) != 2,
)
NO_MEMBER = Cel(
    f"!{IS_EXTERNAL} || {MEMBERS} > 0",
    "no machine is an etcd member",
    "give a set with the role etcd at least one replica",
    SETS,
    holds=lambda spec: not _external(spec) or _members(spec) > 0,
)
SAME_PLACE = Cel(
    f"({IS_EXTERNAL}) == ({IS_EXTERNAL.replace('self', 'oldSelf')})",
    "etcd cannot move between the control planes and machines of its own",
    "make another ClusterDeployment",
    SETS,
)
ETCD_RULES = (*(NO_CONTROL_PLANE, MIXED, TWO_STACKED, EVEN_STACKED, TWO_MEMBERS, EVEN_MEMBERS, NO_MEMBER, SAME_PLACE),)
