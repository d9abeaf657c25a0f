"""Sets of machines of a declared cluster: roles, how many, what the operator makes them of; and MachineSet."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, listed, mapped, part, unchanged
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.resources import GROUP, LabelValue, Line, LoginUser, ObjectName, ShortName

ZONE_LABEL = "topology.kubernetes.io/zone"  # of nodes: https://kubernetes.io/docs/reference/labels-annotations-taints/
MIB = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
KEY_PATTERN = (
    "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"  # as Kubernetes has it
)
MarkKey = Annotated[str, StringConstraints(pattern=KEY_PATTERN, max_length=316)]
HOSTNAME_LABEL = "kubernetes.io/hostname"
ImageUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2048)]
Checksum = Annotated[str, StringConstraints(pattern=r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$", max_length=135)]
Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}(Mi|Gi)$", max_length=9)]
DiskSize = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}(Gi|Ti)$", max_length=9)]


class MadeImage(ApiModel):
    """The image that a machine's disk is made from, with cloud-init in it."""

    url: ImageUrl = Field(description="URL of a disk image, qcow2 or raw, from which KubeVirt's importers get it.")
    checksum: Checksum = Field(description="sha256:HEX or sha512:HEX of the file.")
    credentials: ObjectName | None = Field(default=None, description="Secret with the log-in of the image's server.")
    certificates: ObjectName | None = Field(default=None, description="ConfigMap with the CA of the image's server.")


class KubevirtMachine(ApiModel):
    """What one machine is made of."""

    image: MadeImage = Field(description="The image that its disk is made from.")
    cpus: int = Field(default=2, ge=1, le=512, description="Number of processors.")
    memory: Memory = Field(description="Memory, such as 2048Mi or 4Gi.")
    disk: DiskSize = Field(description="Size of the disk, such as 20Gi; not smaller than the image.")
    storage_class: ObjectName | None = Field(default=None, description="Class of the disk; default: the cluster's.")
    node_selector: dict[str, LabelValue] = mapped("Labels of the nodes that it may run on.", max_length=20)

    @property
    def memory_mib(self) -> int:
        """Return the memory in MiB."""
        return mebibytes(self.memory)

    @property
    def disk_gib(self) -> int:
        """Return the size of the disk in GiB."""
        return mebibytes(self.disk) // MIB["Gi"]


class SpreadPolicy(ApiModel):
    """Over what machines are spread, and how strictly."""

    topology_key: MarkKey = Field(default=ZONE_LABEL, description="Label of Machines or nodes that names domains.")
    policy: Literal["Required", "Preferred"] = Field(
        default="Preferred", description="Required: no two machines in one domain; Preferred: as well as can be."
    )


class FailureDomains(SpreadPolicy):
    """Domains that fail as a whole, such as zones or hosts, over which the machines of a set are spread."""

    domains: tuple[LabelValue, ...] = listed(
        "The domains to use; default: those that there are.",
        default=(),
        max_length=20,
    )


class MadeMachine(KubevirtMachine):
    """What one machine is made of, and how KubeVirt's scheduler is to place it."""

    spread: SpreadPolicy | None = Field(
        default=None, description="Keep it apart from the other machines of its set; a controller writes this."
    )


class KubevirtMachines(KubevirtMachine):
    """What the machines of a set are made of. A change holds for machines that are made after it."""

    user: LoginUser = Field(default="vmatrix", description="User who logs in; cloud-init makes it.")
    zones: tuple[LabelValue, ...] = listed(
        "Zones to spread over, by the label topology.kubernetes.io/zone of nodes.",
        default=(),
        max_length=20,
    )

    def one(self, spread: SpreadPolicy | None = None) -> MadeMachine:
        """Return what each of the machines is made of."""
        return MadeMachine.model_validate({**self.model_dump(exclude={"user", "zones"}), "spread": spread})


class MachineInfrastructure(StatusModel):
    """The machine as a VirtualMachineInstance."""

    address: Line = Field(default="", description="IP address at which other machines reach it.")
    ipv6_address: Line = Field(default="", description="IPv6 address besides, where the infra cluster gives one.")
    instance: Line = Field(default="", description="UID of the VirtualMachineInstance.")
    disk: Line = Field(default="", description="UID of its disk's PersistentVolumeClaim.")
    node: Line = Field(default="", description="Node that it runs on.")


def mebibytes(text: str) -> int:
    """Return a size of one of the patterns above in MiB."""
    return int(text[:-2]) * MIB[text[-2:]]


# Written by the kubelet, by kubeadm and by the node controller, who need them as they are.
# https://kubernetes.io/docs/reference/labels-annotations-taints
KUBELETS_LABELS = (
    *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os"),
    *("beta.kubernetes.io/arch", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker"),
)
CONTROLLERS_TAINTS = "node.kubernetes.io/"


def _name(key: str) -> bool:
    return re.fullmatch(KEY_PATTERN, key) is not None and not key.startswith(f"{GROUP}/")


OWN_LABELS = Cel(
    f"self.labels.all(key, !(key in [{', '.join(map(repr, KUBELETS_LABELS))}]))",
    "Kubernetes itself gives nodes one of these labels, and each node its own",
    f"remove it; these are {', '.join(KUBELETS_LABELS)}",
    ".labels",
    holds=lambda machine_set: not any(key in KUBELETS_LABELS for key in machine_set.labels),
)
OWN_TAINTS = Cel(
    f"!self.key.startsWith('{CONTROLLERS_TAINTS}')",
    "Kubernetes itself sets and removes this taint",
    f"use a key that does not begin with {CONTROLLERS_TAINTS}",
    ".key",
    holds=lambda taint: not taint.key.startswith(CONTROLLERS_TAINTS),
)
LABEL_KEYS = Cel(
    f"self.labels.all(key, key.matches('{KEY_PATTERN}') && !key.startsWith('{GROUP}/'))",
    "the key of a label is none that nodes may have, or one of the operator's own",
    f"write NAME or PREFIX/NAME, with another prefix than {GROUP}",
    ".labels",
    holds=lambda machine_set: all(map(_name, machine_set.labels)),
)


class NodeTaint(ApiModel):
    """A taint of the nodes of a set."""

    cel: ClassVar[tuple[Cel, ...]] = (OWN_TAINTS,)
    key: MarkKey = Field(description="Key of the taint.")
    value: LabelValue = Field(default="", description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(description="Effect of the taint.")


def taints() -> Any:
    """Return the field of a set's taints."""
    return Field(
        default=(),
        max_length=20,
        description="Taints of its nodes; other taints stay as they are.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "effect"]},
    )


MachineRole = Literal["control-plane", "etcd", "worker"]
CONTROL_PLANE: MachineRole = "control-plane"
ETCD: MachineRole = "etcd"
WORKER: MachineRole = "worker"
GROUPS = {CONTROL_PLANE: "control_plane", ETCD: "etcd", WORKER: "node"}  # role -> group of the inventory

ONE_SOURCE = Cel(
    "[has(self.pool), has(self.names), has(self.kubevirt)].filter(given, given).size() == 1",
    "a set takes its machines from a pool, by their names, or has them made",
    "set exactly one of pool, names and kubevirt",
    holds=lambda source: [source.pool, source.names, source.kubevirt].count(None) == 2,
)
SAME_SOURCE = Cel(
    "has(self.pool) == has(oldSelf.pool) && has(self.names) == has(oldSelf.names)",
    "the source of a set's machines cannot change",
    "add a set with the other source and scale this one to 0",
)
AS_MANY_AS_NAMES = Cel(
    "!has(self.machines.names) || self.replicas == size(self.machines.names)",
    "replicas is not the number of names",
    "set replicas to the number of machines in machines.names",
    ".replicas",
    holds=lambda machine_set: (
        machine_set.machines.names is None or machine_set.replicas == len(machine_set.machines.names)
    ),
)
ETCD_ALONE = Cel(
    "!('etcd' in self.roles && 'worker' in self.roles) || 'control-plane' in self.roles",
    "machines with the role etcd but not control-plane run only etcd",
    "remove the role worker, or add the role control-plane",
    ".roles",
    holds=lambda machine_set: not (machine_set.has(ETCD) and machine_set.has(WORKER)) or machine_set.has(CONTROL_PLANE),
)
SAME_ROLES = unchanged(".roles", "add a set with the other roles and scale this one to 0")


TOO_FEW_DOMAINS = Cel(
    "!has(self.failureDomains) || self.failureDomains.policy != 'Required' || self.failureDomains.domains.size() == 0 "
    "|| self.replicas <= self.failureDomains.domains.size()",
    "the set has more machines than failure domains, and each is to have one of its own",
    "lower replicas, add domains, or set policy to Preferred",
    ".failureDomains",
    holds=lambda machine_set: (
        (asked := machine_set.failure_domains) is None
        or asked.policy != "Required"
        or not asked.domains
        or machine_set.replicas <= len(asked.domains)
    ),
)
ZONES_TWICE = Cel(
    "!has(self.failureDomains) || !has(self.machines.kubevirt) || self.machines.kubevirt.zones.size() == 0",
    "zones are failure domains, and both are given",
    "remove machines.kubevirt.zones, and name the zones in failureDomains.domains",
    ".machines.kubevirt.zones",
    holds=lambda machine_set: (
        machine_set.failure_domains is None
        or machine_set.machines.kubevirt is None
        or not machine_set.machines.kubevirt.zones
    ),
)


class MachineSelector(ApiModel):
    """Which Machines."""

    match_labels: dict[str, LabelValue] = mapped("Labels of the Machines; none: all of the namespace.", max_length=20)


class MachinePool(ApiModel):
    """Idle Machines of the same namespace."""

    selector: MachineSelector = part(MachineSelector, "Which idle Machines may be claimed.")


class MachineSource(ApiModel):
    """Where a set's machines come from: exactly one of pool, names and kubevirt."""

    cel: ClassVar[tuple[Cel, ...]] = (ONE_SOURCE, SAME_SOURCE)
    pool: MachinePool | None = Field(default=None, description="Idle Machines by their labels.")
    names: tuple[ObjectName, ...] | None = listed(
        "These Machines, by name.", default=None, min_length=1, max_length=200
    )
    kubevirt: KubevirtMachines | None = Field(default=None, description="Machines that the operator makes.")


class WantedSet(ApiModel):
    """One set of machines with the same roles."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(AS_MANY_AS_NAMES, ETCD_ALONE, SAME_ROLES, LABEL_KEYS, OWN_LABELS),
        *(TOO_FEW_DOMAINS, ZONES_TWICE),
    )
    name: ShortName = Field(description="Name of the set; its MachineSet is CLUSTER-NAME.")
    roles: tuple[MachineRole, ...] = listed("What its machines are; cannot change.", min_length=1, max_length=3)
    replicas: int = Field(default=1, ge=0, le=200, description="How many machines.")
    machines: MachineSource = Field(
        description="Where its machines come from: exactly one of pool, names and kubevirt."
    )
    failure_domains: FailureDomains | None = Field(
        default=None, description="Domains that fail as a whole, over which its machines are spread."
    )
    labels: dict[str, LabelValue] = mapped("Labels of its nodes; other labels stay as they are.", max_length=50)
    taints: tuple[NodeTaint, ...] = taints()

    def has(self, role: MachineRole) -> bool:
        """Tell whether its machines have a role."""
        return role in self.roles


class MachineSetStatus(StatusModel):
    """How far the set's machines are."""

    observed_generation: int | None = Field(default=None, description="Generation that the status is about.")
    wanted: int = Field(default=0, description="How many machines are wanted.")
    claimed: int = Field(default=0, description="How many are claimed.")
    made: int = Field(default=0, description="Number of the last machine that was made for it; none is used again.")
    provisioned: int = Field(default=0, description="How many are there, and can be deployed or are.")
    deployed: int = Field(default=0, description="How many are deployed.")
    ready: int = Field(default=0, description="How many are ready nodes or members.")
    executions: str | None = Field(default=None, description="The executor that works on them, or the last one.")
    conditions: tuple[Condition, ...] = conditions("MachinesClaimed, Spread, Edited.")


class MachineSet(ObjectModel):
    """One set of a ClusterDeployment's machines. Derived: edit the ClusterDeployment instead."""

    spec: WantedSet = Field(description="The set, as in the ClusterDeployment.")
    status: MachineSetStatus = Field(default_factory=MachineSetStatus, description="How far the set's machines are.")


def set_name(cluster: str, set_of_cluster: str) -> str:
    """Return the name of the MachineSet of a cluster's set.

    Cluster `a-b` with set `c` and cluster `a` with set `b-c` must not meet. So a set with a hyphen gets a digest behind
    it, which begins with a digit, as no set's name does. A name without one is read from its last hyphen.
    """
    if "-" not in set_of_cluster:
        return f"{cluster}-{set_of_cluster}"
    digest = hashlib.sha256(f"{cluster}/{set_of_cluster}".encode()).hexdigest()[:7]
    return f"{cluster}-{set_of_cluster}-0{digest}"
