"""The CustomResourceDefinitions of the kinds, made from their models."""

from __future__ import annotations

from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.kinds.definition import KindOfObject, as_yaml, column, condition_path, digest_annotation, older
from harness.kube.kinds.page import with_fields
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.delivery import Delivery
from harness.operator.api.etcd import EtcdBackup, EtcdRestore
from harness.operator.api.etcdcluster import EtcdCluster, EtcdPeer
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.networks import ClusterNetworkPool
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    CLUSTER_USER,
    DELIVERY,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    ETCD_RESTORE,
    GROUP,
    MACHINE,
    MACHINE_SET,
)
from harness.operator.api.sets import MachineSet
from harness.operator.api.users import ClusterUser

DIGEST = digest_annotation(GROUP)
HEADER = "# Written by `vmatrix operator crds --write` from harness/operator/api. Do not edit.\n"
REMEDY = "apply those of this version: vmatrix operator crds | kubectl apply --server-side -f -"
CATEGORY = "vmatrix"

AGE = column("Age", ".metadata.creationTimestamp", "date")
CLUSTER_DEPLOYMENT_COLUMNS = (
    column("Version", ".status.version"),
    column("Wanted", ".spec.version"),
    column("Ready", condition_path("Ready")),
    column("Machines", ".status.machines"),
    column("Doing", condition_path("Progressing", "reason")),
    AGE,
    column("Reason", condition_path("Ready", "message"), wide=True),
    column("API", ".status.endpoint", wide=True),
)
CLUSTER_COLUMNS = (
    column("Operation", ".status.operation.operation"),
    column("Attempt", ".status.operation.attempt", "integer"),
    column("Play", ".status.operation.play"),
    column("Last", ".status.history[0].operation"),
    column("Outcome", ".status.history[0].outcome"),
    AGE,
    column("Task", ".status.operation.task", wide=True),
    column("Job", ".status.operation.job", wide=True),
    column("Summary", ".status.history[0].summary", wide=True),
)
MACHINE_SET_COLUMNS = (
    column("Roles", ".spec.roles"),
    column("Wanted", ".status.wanted", "integer"),
    column("Claimed", ".status.claimed", "integer"),
    column("Deployed", ".status.deployed", "integer"),
    column("Ready", ".status.ready", "integer"),
    AGE,
    column("Execution", ".status.executions", wide=True),
    column("Waits", condition_path("MachinesClaimed", "message"), wide=True),
)
MACHINE_COLUMNS = (
    column("Phase", ".status.phase"),
    column("Address", ".spec.address"),
    column("Cluster", ".spec.claim.cluster"),
    column("Set", ".spec.claim.set"),
    column("Version", ".status.node.version"),
    AGE,
    column("Roles", ".status.roles", wide=True),
    column("OS", ".status.facts.os", wide=True),
    column("CPUs", ".status.facts.cpus", "integer", wide=True),
    column("MiB", ".status.facts.memoryMiB", "integer", wide=True),
    column("Infra address", ".status.infrastructure.address", wide=True),
    column("Infrastructure", condition_path("InfrastructureReady", "message"), wide=True),
    column("Login", condition_path("Reachable", "message"), wide=True),
    column("Empty", condition_path("Empty", "message"), wide=True),
    column("Node", condition_path("NodeReady", "message"), wide=True),
)
ETCD_CLUSTER_COLUMNS = (
    column("Version", ".status.version"),
    column("Wanted", ".spec.version"),
    column("Phase", ".status.phase"),
    column("Members", ".status.members"),
    column("Healthy", condition_path("EtcdHealthy")),
    column("Doing", condition_path("Progressing", "reason")),
    AGE,
    column("Reason", condition_path("Ready", "message"), wide=True),
    column("Endpoints", ".status.endpoints", wide=True),
)
ETCD_PEER_COLUMNS = (
    column("Cluster", ".spec.cluster"),
    column("ID", ".status.memberID"),
    column("Role", ".status.role"),
    column("Leader", ".status.leader", "boolean"),
    column("MiB", ".status.sizeMiB", "integer"),
    column("Ready", condition_path("Ready")),
    AGE,
    column("Alarm", ".status.alarm", wide=True),
    column("Raft", ".status.raftIndex", "integer", wide=True),
    column("Seen", ".status.seen", "date", wide=True),
    column("Says", condition_path("Ready", "message"), wide=True),
)
ETCD_BACKUP_COLUMNS = (
    column("Cluster", ".spec.cluster"),
    column("Phase", ".status.phase"),
    column("Taken", ".status.taken", "date"),
    column("Proven", ".status.proven", "date"),
    column("Bytes", ".status.sizeBytes", "integer"),
    AGE,
    column("Revision", ".status.revision", "integer", wide=True),
    column("Location", ".status.location", wide=True),
    column("Says", condition_path("Verified", "message"), wide=True),
    column("Drill", condition_path("Proven", "message"), wide=True),
)
ETCD_RESTORE_COLUMNS = (
    column("Cluster", ".spec.cluster"),
    column("Backup", ".spec.backup"),
    column("Phase", ".status.phase"),
    AGE,
    column("Ended", ".status.ended", "date", wide=True),
    column("Says", condition_path("Restored", "message"), wide=True),
)
DELIVERY_COLUMNS = (
    column("Commit", ".status.commit"),
    column("Ready", condition_path("Ready")),
    column("Doing", condition_path("Ready", "reason")),
    column("Cluster", ".spec.deploy.cluster"),
    column("URL", ".status.url"),
    AGE,
    column("Image", ".status.image", wide=True),
    column("Reason", condition_path("Ready", "message"), wide=True),
)
USER_COLUMNS = (
    column("Cluster", ".spec.cluster"),
    column("User", ".status.user"),
    column("Ready", condition_path("Ready")),
    column("Expires", ".status.expires"),
    AGE,
    column("Secret", ".status.secret", wide=True),
    column("Says", condition_path("Ready", "message"), wide=True),
)
POOL_COLUMNS = (
    column("Available", condition_path("Available")),
    AGE,
    column("Pods", ".spec.pods[*].cidr", wide=True),
    column("Services", ".spec.services[*].cidr", wide=True),
    column("Says", condition_path("Available", "message"), wide=True),
)
KINDS = (
    KindOfObject(ClusterDeployment, CLUSTER_DEPLOYMENT, "vcd", CATEGORY, CLUSTER_DEPLOYMENT_COLUMNS),
    KindOfObject(DeclaredCluster, CLUSTER, "vcl", CATEGORY, CLUSTER_COLUMNS),
    KindOfObject(MachineSet, MACHINE_SET, "vms", CATEGORY, MACHINE_SET_COLUMNS, replicas=".status.claimed"),
    KindOfObject(DeclaredMachine, MACHINE, "vma", CATEGORY, MACHINE_COLUMNS, (".spec.claim.cluster", ".status.phase")),
    KindOfObject(EtcdCluster, ETCD_CLUSTER, "vec", CATEGORY, ETCD_CLUSTER_COLUMNS, replicas=".status.replicas"),
    KindOfObject(EtcdPeer, ETCD_PEER, "vep", CATEGORY, ETCD_PEER_COLUMNS, (".spec.cluster",)),
    KindOfObject(EtcdBackup, ETCD_BACKUP, "veb", CATEGORY, ETCD_BACKUP_COLUMNS, (".spec.cluster", ".status.phase")),
    KindOfObject(EtcdRestore, ETCD_RESTORE, "ver", CATEGORY, ETCD_RESTORE_COLUMNS, (".spec.cluster", ".status.phase")),
    KindOfObject(ClusterUser, CLUSTER_USER, "vcu", CATEGORY, USER_COLUMNS, (".spec.cluster",)),
    KindOfObject(ClusterNetworkPool, CLUSTER_NETWORK_POOL, "vnp", CATEGORY, POOL_COLUMNS),
    KindOfObject(Delivery, DELIVERY, "vdl", CATEGORY, DELIVERY_COLUMNS),
)


def crds() -> list[Json]:
    """Return the definitions of all kinds."""
    return [kind.definition() for kind in KINDS]


def files() -> dict[str, str]:
    """Return the definitions as files, text by name."""
    return {f"{kind.resource.plural}.yml": HEADER + as_yaml(kind.definition()) for kind in KINDS}


def with_tables(page: str) -> str:
    """Return a page of documentation with the tables of all fields between its marks."""
    return with_fields(page, crds())


def crds_older(cluster: Cluster) -> list[str]:
    """Return a sentence for each definition that is missing or older than this version's. Raises ApiFailure."""
    return [f"{words}: {REMEDY}" for words in older(cluster, crds())]
