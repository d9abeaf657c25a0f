"""Cluster: what the operator knows of a ClusterDeployment's cluster. Only status, and only controllers write it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ObjectModel, StatusModel, listed
from harness.operator.api.addons import AddonStatus
from harness.operator.api.endpoint import EndpointState
from harness.operator.api.etcd import BackupScheduleState, Moment, OperationSnapshot, TakenSnapshot
from harness.operator.api.isolation import IsolationState
from harness.operator.api.machine import KeyRef
from harness.operator.api.resources import FreeForm, Line, ObjectName

Digest = Annotated[str, StringConstraints(max_length=128)]
Words = Annotated[tuple[Line, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]


class AppliedHost(StatusModel):
    """One machine of the cluster: all that an operation needs to reach it, also when its Machine is gone."""

    name: Line = Field(description="Its name in the inventory, and as a node.")
    machine: Line = Field(description="Its Machine.")
    set_name: Line = Field(alias="set", default="", description="The set that it was claimed for.")
    groups: Words = Field(default=(), description="Its groups in the inventory.")
    address: Line = Field(description="IP address at which other machines reach it.")
    ipv6_address: Line = Field(default="", description="IPv6 address besides.")
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


HISTORY_LENGTH = 20
SNAPSHOTS_LENGTH = 200  # an object of the API has at most 1.5 MiB; one of these takes some 500 bytes


class PlannedStep(StatusModel):
    """One operation that is still to do."""

    operation: str = Field(description="Name of the operation.")
    why: str = Field(default="", description="The difference that it removes.")
    disruptive: bool = Field(default=False, description="Whether running machines restart or leave.")
    machines: Words = Field(default=(), description="Machines that it changes.")


class Obstacle(StatusModel):
    """Why an executor is not started, from its pod and the events about that."""

    reason: str = Field(description="One word for programs.")
    message: str = Field(description="What the scheduler or the kubelet says.")


class CurrentOperation(StatusModel):
    """The operation that an executor runs now."""

    sequence: int = Field(description="Number of the operation in this cluster's life.")
    operation: str = Field(description="Name of the operation.")
    attempt: int = Field(default=1, description="Which try it is.")
    why: str | None = Field(default=None, description="The difference that it removes.")
    machines: Words = Field(default=(), description="Machines that it changes.")
    job: str | None = Field(default=None, description="Name of the Job.")
    image: str | None = Field(default=None, description="Image of the executor.")
    digest: Digest | None = Field(default=None, description="Digest of what is applied.")
    started: Moment = Field(default=None, description="When it began.")
    play: Line | None = Field(default=None, description="The play that runs.")
    task: Line | None = Field(default=None, description="The task that runs.")
    obstacle: Obstacle | None = Field(default=None, description="What keeps its executor from being started.")
    snapshot: OperationSnapshot | None = Field(
        default=None, description="The snapshot of etcd that it takes or restores."
    )
    applies: AppliedState | None = Field(default=None, description="What is applied once it has succeeded.")


class PastOperation(StatusModel):
    """One operation that ended."""

    sequence: int = Field(description="Number of the operation in this cluster's life.")
    attempt: int = Field(default=1, description="Which try it was.")
    operation: str = Field(description="Name of the operation.")
    why: str | None = Field(default=None, description="The difference that it was to remove.")
    outcome: str = Field(description="How it ended.")
    blame: str | None = Field(default=None, description="Who must repair it: product, infra, harness or user.")
    play: Line | None = Field(default=None, description="The play that failed.")
    task: Line | None = Field(default=None, description="The task that failed.")
    host: Line | None = Field(default=None, description="The machine that it failed on.")
    reason: Line | None = Field(default=None, description="What kind of failure it was, as one word, if that is known.")
    summary: str | None = Field(default=None, description="What went wrong, in one line.")
    hint: str | None = Field(default=None, description="What to do.")
    started: Moment = Field(default=None, description="When it began.")
    ended: Moment = Field(default=None, description="When it ended.")
    untouched: bool = Field(default=False, description="It never began, or only checked: nothing was changed.")
    log: str | None = Field(default=None, description="ConfigMap that keeps its log.")
    digest: Digest | None = Field(default=None, description="Digest of what was applied.")
    backup: ObjectName | None = Field(default=None, description="EtcdBackup that it took or restored.")
    backup_uid: Line | None = Field(default=None, description="UID of that EtcdBackup.")
    restore_uid: Line | None = Field(default=None, description="UID of the EtcdRestore that asked for it.")


class DrillResult(PastOperation):
    """The end of one drill."""

    time: Line = Field(default="", description="Time of the schedule that it was for.")
    objects: int | None = Field(default=None, description="How many keys were read, as many as were counted.")
    revision: int | None = Field(default=None, description="Revision of etcd's data.")


class DrillState(StatusModel):
    """What was done by the schedule of drills, and what came of it."""

    schedule: BackupScheduleState | None = Field(default=None, description="What was done by the schedule.")
    last: DrillResult | None = Field(default=None, description="The last drill that ended.")
    proven: DrillResult | None = Field(default=None, description="The last that found all that was counted.")


class PendingApproval(StatusModel):
    """The operation that waits for an approval."""

    sequence: int = Field(description="The number to approve; it is another one if something else is to be done.")
    operation: str = Field(description="Name of the operation.")
    digest: Digest = Field(default="", description="Digest of what would be applied.")


class AuthorityPart(StatusModel):
    """A CA of the cluster, or the keys that its ServiceAccounts' tokens are signed with."""

    name: str = Field(description="ca, etcd, proxy or sa.")
    secret: ObjectName = Field(description="Secret with tls.crt and tls.key.")
    public_key: Digest = Field(description="SHA-256 of the public key, by which the cluster knows it.")
    expires: Moment = Field(default=None, description="When the CA expires.")


class AuthorityState(StatusModel):
    """The CAs that the cluster is begun with."""

    usable: bool = Field(default=False, description="Whether machines can be given them.")
    reason: str = Field(default="NotMade", description="Why, as one word for programs.")
    message: Line = Field(
        default="its CAs are not made yet: the controller authority makes them", description="Why, for people."
    )
    parts: tuple[AuthorityPart, ...] = listed("Each of them.", key="name", default=(), max_length=10)


class NetworksState(StatusModel):
    """The networks that a cluster has of a ClusterNetworkPool."""

    pool: ObjectName = Field(description="The pool.")
    allocated: bool = Field(default=False, description="Whether they are this cluster's.")
    reason: str = Field(default="", description="Why, as one word for programs.")
    message: Line = Field(default="", description="Why, for people.")
    pods: str | None = Field(default=None, description="Network of the pods.")
    services: str | None = Field(default=None, description="Network of the Services.")
    ipv6_pods: str | None = Field(default=None, alias="ipv6Pods", description="Second network of the pods.")
    ipv6_services: str | None = Field(default=None, alias="ipv6Services", description="Second network of the Services.")
    vni: int | None = Field(default=None, description="VXLAN number.")
    port: int | None = Field(default=None, description="UDP port of VXLAN.")


class EtcdClientState(StatusModel):
    """What a cluster has of the EtcdCluster that it names."""

    cluster: ObjectName = Field(description="The EtcdCluster.")
    uid: Line = Field(default="", description="UID of the EtcdCluster in which the prefix is this cluster's.")
    prefix: Line = Field(default="", description="What names of the cluster's keys begin with.")
    user: Line = Field(default="", description="User of etcd, once the prefix is this cluster's.")
    made: bool = Field(default=False, description="Whether etcd has this user.")
    usable: bool = Field(default=False, description="Whether API servers can use it.")
    ready: bool = Field(default=False, description="Whether a cluster can be begun with it.")
    reason: str = Field(default="", description="Why, as one word for programs.")
    message: Line = Field(default="", description="Why, for people.")
    endpoints: Words = Field(default=(), description="URLs of the members.")
    secret: ObjectName | None = Field(default=None, description="Secret with ca.crt, tls.crt and tls.key.")
    expires: Moment = Field(default=None, description="When the certificate in it expires.")
    leaving: bool = Field(default=False, description="Whether the cluster is deleted, and its machines are reset.")
    deletes: bool = Field(default=False, description="Whether its keys go with it.")
    restored: Line = Field(default="", description="The last restore of the EtcdCluster that the cluster went through.")


class DeclaredClusterStatus(StatusModel):
    """The plan, the operation that runs, what was applied, and what happened before."""

    plan: tuple[PlannedStep, ...] = Field(default=(), max_length=20, description="What is still to do, in order.")
    sequence: int = Field(default=0, description="Number of the last operation.")
    operation: CurrentOperation | None = Field(default=None, description="The operation that an executor runs now.")
    applied: AppliedState | None = Field(default=None, description="What was last applied with success.")
    unsettled: UnsettledState | None = Field(default=None, description="What may be done half.")
    approval: PendingApproval | None = Field(default=None, description="The operation that waits for an approval.")
    authority: AuthorityState | None = Field(default=None, description="The CAs that the cluster is begun with.")
    networks: NetworksState | None = Field(default=None, description="Its networks, where it names a pool.")
    endpoint: EndpointState | None = Field(default=None, description="The way to its API, where it asks for one.")
    etcd_client: EtcdClientState | None = Field(
        default=None, description="What it has of an EtcdCluster, where it names one."
    )
    isolation: IsolationState | None = Field(
        default=None, description="The NetworkPolicy around its machines, where it asks for one."
    )
    addons: tuple[AddonStatus, ...] = listed(
        "What became of each add-on in the cluster.", key="name", default=(), max_length=40
    )
    history: tuple[PastOperation, ...] = Field(
        default=(), max_length=HISTORY_LENGTH, description="The last 20 operations, the latest first."
    )
    snapshots: tuple[TakenSnapshot, ...] = Field(
        default=(), max_length=SNAPSHOTS_LENGTH, description="Snapshots that were taken and not deleted yet."
    )
    backup_schedule: BackupScheduleState | None = Field(
        default=None, description="What was done by the schedule of backups."
    )
    drill: DrillState | None = Field(default=None, description="What was done by the schedule of drills.")


class DeclaredCluster(ObjectModel):
    """What the operator does and did for the ClusterDeployment or EtcdCluster of the same name."""

    status: DeclaredClusterStatus = Field(
        default_factory=DeclaredClusterStatus, description="What is done, was done and is still to do."
    )
