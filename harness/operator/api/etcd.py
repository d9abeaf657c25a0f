"""etcd of a declared cluster: its flags, when and where it is backed up; and EtcdBackup, one snapshot of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, listed, part, unchanged
from harness.operator.api.components import Flags
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.resources import Line, ObjectName, SecretKey
from harness.operator.api.schedules import UTC_NAME, CronText, WordOrCron, ZoneName
from harness.operator.api.sets import CONTROL_PLANE, ETCD, WantedSet

NO_DESTINATION = Cel(
    "has(self.destination) || !(self.beforeDisruption || has(self.schedule) || has(self.drill))",
    "backups that the operator makes need a place",
    "set destination.claim to the name of a PersistentVolumeClaim, or destination.s3",
    ".destination",
    holds=lambda policy: (
        policy.destination is not None or not (policy.before_disruption or policy.schedule or policy.drill)
    ),
)
NO_SCHEDULE = Cel(
    "!has(self.drill) || has(self.schedule)",
    "a drill restores the newest backup, and nothing makes newer ones",
    "set schedule, or remove drill",
    ".drill",
    holds=lambda policy: policy.drill is None or policy.schedule is not None,
)


class SecretName(ApiModel):
    """A Secret of the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class SecretEntry(SecretName):
    """One key of a Secret of the same namespace."""

    key: SecretKey = Field(description="Key of the Secret.")


KEY_CHARACTERS = r"[A-Za-z0-9!_.*'()-]+"  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
KMS_WITHOUT_KMS = Cel(
    "!has(self.kmsKeyId) || (has(self.serverSideEncryption) && self.serverSideEncryption == 'aws:kms')",
    "a key of KMS is of no use to another encryption",
    "set serverSideEncryption to aws:kms, or remove kmsKeyId",
    ".kmsKeyId",
    holds=lambda s3: s3.kms_key_id is None or s3.server_side_encryption == "aws:kms",
)


class S3Destination(ApiModel):
    """A bucket of S3, or of what speaks as S3 does."""

    cel: ClassVar[tuple[Cel, ...]] = (KMS_WITHOUT_KMS,)
    bucket: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", max_length=63)] = Field(
        description="Name of the bucket, which has to exist."
    )
    prefix: Annotated[str, StringConstraints(pattern=rf"^({KEY_CHARACTERS}(/{KEY_CHARACTERS})*)?$", max_length=200)] = (
        Field(default="", description="What the names of all objects begin with, without a / at its end.")
    )
    endpoint: Annotated[str, StringConstraints(pattern=r"^https?://[^/?#@ ]+$", max_length=253)] | None = Field(
        default=None, description="URL of the server; default: that of AWS in the region."
    )
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$", max_length=64)] = Field(
        default="us-east-1", description="Region of the bucket, which is a part of each signature."
    )
    path_style: bool = Field(
        default=False, description="Whether the bucket is in the path of URLs, not in the host's name."
    )
    secret_ref: SecretName = Field(
        description="Secret with accessKeyId and secretAccessKey, and sessionToken if there is one."
    )
    ca_secret_ref: SecretEntry | None = Field(
        default=None, description="Authorities that sign the server's certificate; default: those of the image."
    )
    server_side_encryption: Literal["AES256", "aws:kms"] | None = Field(
        default=None, description="Encryption by the server."
    )
    kms_key_id: Line | None = Field(default=None, description="Key of the server's KMS; default: that of the bucket.")
    encryption_key_ref: SecretEntry | None = Field(
        default=None,
        description="Key of 32 bytes, raw or in base64, that snapshots are encrypted with before they leave.",
    )

    @property
    def url(self) -> str:
        """Return where its objects lie, as people read it; no two places have the same."""
        server = f"{self.endpoint}/" if self.endpoint is not None else "s3://"
        return f"{server}{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the Secrets that it needs."""
        named = (self.secret_ref, self.ca_secret_ref, self.encryption_key_ref)
        return tuple(dict.fromkeys(reference.name for reference in named if reference is not None))


ONE_DESTINATION = Cel(
    "has(self.claim) != has(self.s3)",
    "a snapshot is put into one place",
    "set either claim or s3",
    holds=lambda where: (where.claim is None) != (where.s3 is None),
)


class BackupDestination(ApiModel):
    """Where snapshots are put."""

    cel: ClassVar[tuple[Cel, ...]] = (ONE_DESTINATION,)
    claim: ObjectName | None = Field(default=None, description="PersistentVolumeClaim of the same namespace.")
    s3: S3Destination | None = Field(default=None, description="Bucket of an object store.")


class EtcdBackupPolicy(ApiModel):
    """When and where etcd is backed up."""

    cel: ClassVar[tuple[Cel, ...]] = (NO_DESTINATION, NO_SCHEDULE)
    schedule: CronText | None = Field(
        default=None, description="When a backup is taken: minute, hour, day of the month, month, day of the week."
    )
    time_zone: ZoneName = Field(default=UTC_NAME, description="Time zone of the schedule, as IANA names it.")
    suspend: bool = Field(default=False, description="Make no backup by the schedule for now.")
    before_disruption: bool = Field(default=False, description="Take a backup before every upgrade.")
    destination: BackupDestination | None = Field(
        default=None, description="Where snapshots are put whose EtcdBackup does not say it."
    )
    drill: WordOrCron | None = Field(
        default=None,
        description="When the newest backup is restored where no cluster is: daily, weekly, or as schedule.",
    )
    keep: int = Field(
        default=3,
        ge=1,
        le=50,
        description="How many backups are kept of those that the schedule made, and of those before upgrades.",
    )
    max_age_hours: int | None = Field(
        default=None,
        ge=1,
        le=87600,
        description="After how many hours those are deleted, but for the newest verified one.",
    )


PREFIX_PATTERN = "^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"  # no slash at its end: what is below it is another's alone
KeyPrefix = Annotated[str, StringConstraints(pattern=PREFIX_PATTERN, max_length=200)]


class EtcdClusterRef(ApiModel):
    """An EtcdCluster of the same namespace, and what names of the cluster's keys begin with there."""

    name: ObjectName = Field(description="The EtcdCluster; cannot change.")
    prefix: KeyPrefix | None = Field(
        default=None,
        description="What names of keys begin with; cannot change once deployed; default: /NAME-UID.",
    )


class EtcdSettings(Flags):
    """Settings of etcd."""

    backup: EtcdBackupPolicy = part(EtcdBackupPolicy, "When and where etcd is backed up.")
    cluster_ref: EtcdClusterRef | None = Field(
        default=None, description="An EtcdCluster that the API servers use, beside others; no set has the role etcd."
    )


EXTERNAL = "'etcd' in s.roles && !('control-plane' in s.roles)"
IS_SHARED = "has(self.etcd.clusterRef)"
IS_EXTERNAL = f"self.machineSets.exists(s, {EXTERNAL})"
MEMBERS = f"self.machineSets.filter(s, {EXTERNAL}).map(s, s.replicas).sum()"
CONTROL_PLANES = "self.machineSets.filter(s, 'control-plane' in s.roles).map(s, s.replicas).sum()"
SETS = ".machineSets"


def _external(spec: Any) -> list[WantedSet]:
    return [
        machine_set for machine_set in spec.machine_sets if machine_set.has(ETCD) and not machine_set.has(CONTROL_PLANE)
    ]


def _stacked(spec: Any) -> bool:
    return not _external(spec) and spec.etcd.cluster_ref is None


def _members(spec: Any) -> int:
    return sum(machine_set.replicas for machine_set in _external(spec))


def _control_planes(spec: Any) -> int:
    return sum(machine_set.replicas for machine_set in spec.machine_sets if machine_set.has(CONTROL_PLANE))


def _unmixed(spec: Any) -> bool:
    both = any(machine_set.has(ETCD) and machine_set.has(CONTROL_PLANE) for machine_set in spec.machine_sets)
    return not both or all(machine_set.has(ETCD) == machine_set.has(CONTROL_PLANE) for machine_set in spec.machine_sets)


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
    f"{IS_SHARED} || {IS_EXTERNAL} || {CONTROL_PLANES} != 2",
    "two control planes would be two etcd members, which stop when either one fails",
    "use one or three control planes, or add a set with the role etcd",
    SETS,
    creating=True,
    holds=lambda spec: not _stacked(spec) or _control_planes(spec) != 2,
)
EVEN_STACKED = Cel(
    f"{IS_SHARED} || {IS_EXTERNAL} || {CONTROL_PLANES} < 4 || {CONTROL_PLANES} % 2 == 1",
    "an even number of control planes is as many etcd members, which stand no more failures than one less",
    "use an odd number of control planes, or add a set with the role etcd",
    SETS,
    creating=True,
    holds=lambda spec: not _stacked(spec) or _control_planes(spec) < 4 or _control_planes(spec) % 2 == 1,
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


REF = ".etcd.clusterRef"
SAME_ETCD = Cel(
    f"{IS_SHARED} == {IS_SHARED.replace('self', 'oldSelf')} && "
    f"(!{IS_SHARED} || self.etcd.clusterRef.name == oldSelf.etcd.clusterRef.name)",
    "a cluster cannot move to another etcd",
    "make another ClusterDeployment",
    REF,
)
MEMBERS_TWICE = Cel(
    f"!{IS_SHARED} || !self.machineSets.exists(s, 'etcd' in s.roles)",
    "etcd would be both an EtcdCluster and a set of the cluster",
    "remove the role etcd from machineSets, or remove clusterRef",
    REF,
    holds=lambda spec: (
        spec.etcd.cluster_ref is None or not any(machine_set.has(ETCD) for machine_set in spec.machine_sets)
    ),
)
# Fields about members of etcd, each as CEL tells that it is set, and likewise in Python.
OF_MEMBERS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("components.etcd", "has(self.components.etcd)", lambda spec: spec.components.etcd is not None),
    ("etcd.extraArgs", "self.etcd.extraArgs.size() > 0", lambda spec: bool(spec.etcd.extra_args)),
    (
        "etcd.backup",
        "has(self.etcd.backup.destination) || has(self.etcd.backup.schedule) || has(self.etcd.backup.drill)"
        " || self.etcd.backup.beforeDisruption",
        lambda spec: (
            spec.etcd.backup.destination is not None
            or bool(spec.etcd.backup.schedule or spec.etcd.backup.drill or spec.etcd.backup.before_disruption)
        ),
    ),
    (
        "authority.etcdSecretRef",
        "has(self.authority) && has(self.authority.etcdSecretRef)",
        lambda spec: spec.authority.etcd_secret_ref is not None,
    ),
    (
        "maintenance.defragmentPercent",
        "has(self.maintenance) && has(self.maintenance.defragmentPercent)",
        lambda spec: spec.maintenance.defragment_percent is not None,
    ),
    (
        "maintenance.defragmentMebibytes",
        "has(self.maintenance) && has(self.maintenance.defragmentMebibytes)",
        lambda spec: spec.maintenance.defragment_mebibytes is not None,
    ),
)
OF_THE_ETCD_CLUSTER = Cel(
    f"!{IS_SHARED} || !({' || '.join(f'({rule})' for _, rule, _ in OF_MEMBERS)})",
    f"{', '.join(path for path, _, _ in OF_MEMBERS)} are of the EtcdCluster that clusterRef names",
    "set them there, and remove them here",
    REF,
    holds=lambda spec: spec.etcd.cluster_ref is None or not any(is_set(spec) for _, _, is_set in OF_MEMBERS),
)
SIGNED_ELSEWHERE = Cel(
    f"!{IS_SHARED} || !has(self.authority) || self.authority.keysOnMachines",
    "an executor that signs for the cluster has not the key of the EtcdCluster's CA",
    "set authority.keysOnMachines to true",
    REF,
    holds=lambda spec: spec.etcd.cluster_ref is None or spec.authority.keys_on_machines,
)
OWN_PRODUCT = Cel(
    f"!{IS_SHARED} || !has(self.playbooks.product)",
    "other playbooks know no EtcdCluster",
    "remove playbooks.product, or clusterRef",
    REF,
    holds=lambda spec: spec.etcd.cluster_ref is None or spec.playbooks.product is None,
)
PREFIX_FLAG = Cel(
    f"!{IS_SHARED} || !('etcd-prefix' in self.kubernetes.apiServer.extraArgs)",
    "the prefix is that of clusterRef",
    "remove the flag etcd-prefix from kubernetes.apiServer.extraArgs, and set clusterRef.prefix",
    REF,
    holds=lambda spec: spec.etcd.cluster_ref is None or "etcd-prefix" not in spec.kubernetes.api_server.extra_args,
)
KEYS_OF_NOBODY = Cel(
    f"{IS_SHARED} || self.deletion.etcdKeys == 'Keep'",
    "a cluster without etcd.clusterRef has no keys in another etcd",
    "remove it",
    ".deletion.etcdKeys",
    holds=lambda spec: spec.etcd.cluster_ref is not None or spec.deletion.etcd_keys == "Keep",
)
SHARED_RULES = (
    *(SAME_ETCD, MEMBERS_TWICE, OF_THE_ETCD_CLUSTER, SIGNED_ELSEWHERE, OWN_PRODUCT, PREFIX_FLAG, KEYS_OF_NOBODY),
)


ABSENT = "absent"  # what an executor says beside the facts: files that it expected, and that are not there
LOCKED = "locked"  # likewise: those that it cannot delete yet, and until when
SNAPSHOT_FILE = "{cluster}/{backup}.db"  # within a claim; several clusters may share one
SnapshotFile = Annotated[str, StringConstraints(max_length=128)]
Moment = Annotated[str | None, Field(json_schema_extra={"format": "date-time"})]


ObjectNames = Annotated[tuple[ObjectName, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]


class SnapshotFacts(StatusModel):
    """What was found out about a snapshot when it was read back."""

    revision: int | None = Field(default=None, description="Revision of etcd's data.")
    hash: int | None = Field(default=None, description="Hash of the data, as etcdutl says it.")
    size_bytes: int | None = Field(default=None, description="Size of the file.")
    keys: int | None = Field(default=None, description="How many keys it has.")
    objects: int | None = Field(
        default=None, description="How many keys the cluster had at the revision, as the member counted them."
    )
    member: Line | None = Field(default=None, description="Machine whose member it was taken of.")
    etcd_version: Line | None = Field(default=None, description="Version of etcd.")
    kubernetes_version: Line | None = Field(default=None, description="Version of Kubernetes.")
    encryption: Line | None = Field(
        default=None, description="Name of the key that Secrets are encrypted with at rest; empty if they are not."
    )
    sha256: Line | None = Field(default=None, description="SHA-256 of the file.")
    clusters: ObjectNames = Field(default=(), description="Of an EtcdCluster, ClusterDeployments with keys in it.")
    taken: Moment = Field(default=None, description="When it was taken.")


class SnapshotPlace(StatusModel):
    """The EtcdBackup that a snapshot is of, and where it lies."""

    backup: ObjectName = Field(description="EtcdBackup.")
    uid: Line = Field(default="", description="UID of the EtcdBackup.")
    claim: ObjectName | None = Field(default=None, description="PersistentVolumeClaim, if it lies in one.")
    s3: S3Destination | None = Field(default=None, description="Bucket, if it lies in one.")
    file: SnapshotFile = Field(description="File within the claim, or object below the prefix.")

    @property
    def store(self) -> str:
        """Return the name of the place that the file lies in: of a claim, or the URL of a bucket's prefix."""
        return self.s3.url if self.s3 is not None else self.claim or ""


SnapshotFiles = Annotated[tuple[SnapshotFile, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]


class OperationSnapshot(SnapshotPlace):
    """The snapshot that an operation takes or restores."""

    forget: SnapshotFiles = Field(
        default=(), description="Files within the claim whose EtcdBackups are gone; the operation deletes them."
    )
    restore: Line = Field(default="", description="UID of the EtcdRestore that asks for it, if one does.")
    drill: Line = Field(default="", description="Time of the drill that asks for it, if one does.")
    expected: SnapshotFiles = Field(
        default=(), description="Other files within the claim; the operation says which of them are not there."
    )


class TakenSnapshot(SnapshotPlace, SnapshotFacts):
    """A snapshot that was taken, and that lies where it was put."""

    locked_until: Moment = Field(
        default=None, description="Until when the object store keeps a snapshot that was to be deleted."
    )
    absent: bool = Field(default=False, description="Whether the file was not there when the place was last looked at.")


class BackupScheduleState(StatusModel):
    """What was done by a schedule, so that each of its times counts once."""

    schedule: Line = Field(description="The schedule.")
    time_zone: Line = Field(description="Its time zone.")
    since: Moment = Field(default=None, description="Times before this one do not count: there was no such schedule.")
    last: Moment = Field(default=None, description="The last time for which what it asks for was made, or asked for.")


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
    cluster: ObjectName = Field(description="ClusterDeployment or EtcdCluster that is backed up; cannot change.")
    destination: BackupDestination | None = Field(
        default=None, description="Where the snapshot is put; default: backup.destination of the cluster's object."
    )


class EtcdBackupStatus(SnapshotFacts):
    """What became of the backup."""

    phase: BackupPhase | None = Field(default=None, description="Where it is in its life.")
    location: Line | None = Field(default=None, description="Where the snapshot lies: CLAIM:FILE, or URL:OBJECT.")
    s3: S3Destination | None = Field(default=None, description="Bucket that the snapshot lies in, if it does.")
    volume: Line | None = Field(default=None, description="PersistentVolume of that claim.")
    verified: Moment = Field(default=None, description="When it was known to be whole.")
    cluster_uid: Line | None = Field(default=None, description="UID of the object whose etcd it was taken of.")
    proven: Moment = Field(default=None, description="When a drill last restored it with all that was counted.")
    conditions: tuple[Condition, ...] = conditions("Verified, Failed, Pruned, Proven.")


class EtcdBackup(ObjectModel):
    """A snapshot of a cluster's etcd: the operator takes it once, verifies it, and keeps it in a claim."""

    cel: ClassVar[tuple[Cel, ...]] = (BACKUP_NAME,)
    spec: EtcdBackupSpec = Field(description="What is backed up, and where to.")
    status: EtcdBackupStatus = Field(default_factory=EtcdBackupStatus, description="What became of the backup.")


RestorePhase = Literal["Pending", "Waiting", "Running", "Succeeded", "Failed"]
SUCCEEDED = "Succeeded"
RestoreWay = Literal["Rollback", "MajorityLost", "AllLost", "Clone"]
ROLLBACK: RestoreWay = "Rollback"  # in time, on every member
MAJORITY_LOST: RestoreWay = "MajorityLost"  # on the members that are left
ALL_LOST: RestoreWay = "AllLost"  # on other machines, with the same CAs
CLONE: RestoreWay = "Clone"  # of another cluster's snapshot, with other CAs


SAME_SOURCE = Cel(
    "has(self.from) == has(oldSelf.from) && (!has(self.from) || self.from == oldSelf.from)",
    "from cannot change",
    "make another EtcdRestore",
    ".from",
)
CLONE_OF_ITSELF = Cel(
    "!has(self.from) || self.from != self.cluster",
    "a cluster is not a clone of itself",
    "remove from to go back to a backup, or name another cluster",
    ".from",
    holds=lambda restore: restore.source != restore.cluster,
)


class EtcdRestoreSpec(ApiModel):
    """Which backup a cluster goes back to, or begins with."""

    cel: ClassVar[tuple[Cel, ...]] = (
        unchanged(".cluster", "make another EtcdRestore"),
        unchanged(".backup", "make another EtcdRestore"),
        SAME_SOURCE,
        CLONE_OF_ITSELF,
    )
    cluster: ObjectName = Field(description="ClusterDeployment or EtcdCluster that is restored; cannot change.")
    backup: ObjectName = Field(description="EtcdBackup that it goes back to; cannot change.")
    source: ObjectName | None = Field(
        alias="from",
        default=None,
        description="ClusterDeployment that the backup is of, to begin `cluster` as a clone of it; cannot change.",
    )
    confirm: Line | None = Field(
        default=None,
        description="status.taken of the EtcdBackup, to confirm the loss, or the lack, of what was written since.",
    )
    confirm_clusters: tuple[ObjectName, ...] = listed(
        "ClusterDeployments that go back with an EtcdCluster, all of them, to confirm that.",
        default=(),
        max_length=200,
    )


class EtcdRestoreStatus(StatusModel):
    """What became of the restore."""

    phase: RestorePhase | None = Field(default=None, description="Where it is in its life.")
    way: RestoreWay | None = Field(
        default=None,
        description="Rollback: every member; MajorityLost: without the lost; AllLost: on others; Clone: a new cluster.",
    )
    lost_since: Moment = Field(default=None, description="When the snapshot was taken: what is newer is lost.")
    machines: ObjectNames = Field(
        default=(),
        description="Machines whose data of etcd are replaced; after a loss, those that are given up.",
    )
    operation: int | None = Field(default=None, description="Number of the operation in the history of the Cluster.")
    started: Moment = Field(default=None, description="When that began.")
    ended: Moment = Field(default=None, description="When that ended.")
    conditions: tuple[Condition, ...] = conditions("Restored, Failed.")


class EtcdRestore(ObjectModel):
    """One event: a cluster goes back to a backup of its etcd, or begins as a clone of another one.

    Once it has succeeded or failed, it does nothing.
    """

    spec: EtcdRestoreSpec = Field(description="Which backup a cluster goes back to, or begins with.")
    status: EtcdRestoreStatus = Field(default_factory=EtcdRestoreStatus, description="What became of the restore.")
