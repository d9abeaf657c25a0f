"""EtcdCluster: the wish for an etcd that no cluster owns; and EtcdPeer, what one of its members says of itself."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, listed, mapped, part
from harness.operator.api.clusterdeployment import (
    NAME_LENGTH,
    NAME_PATTERN,
    DeletionPolicy,
    HealthPolicy,
    ImageName,
    IssuerRef,
    JobPolicy,
)
from harness.operator.api.components import Flags, Hours, MirrorUrl, Sha256
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.etcd import EtcdBackupPolicy, Moment, SecretName
from harness.operator.api.resources import FreeForm, Line, ObjectName
from harness.operator.api.sets import (
    AS_MANY_AS_NAMES,
    TOO_FEW_DOMAINS,
    ZONES_TWICE,
    FailureDomains,
    MachineSource,
)

MEMBER = (
    "member"  # the one set of an EtcdCluster: its MachineSet is NAME-member, and its machines are NAME-member-1, ...
)
MOST_MEMBERS = (
    7  # https://etcd.io/docs/v3.6/faq: more members make writes slower, and no failure is more likely survived
)
AT_ONCE = 2  # members that leave by one edit: 3 to 1 by way of 2, 5 to 3, 7 to 5
EtcdVersion = Annotated[str, StringConstraints(pattern=r"^3\.[0-9]+\.[0-9]+$", max_length=16)]

ODD = Cel(
    "self.replicas % 2 == 1",
    "an even number of etcd members stands no more failures than one less",
    "use 1, 3, 5 or 7",
    ".replicas",
    holds=lambda spec: spec.replicas % 2 == 1,
)
MAJORITY_STAYS = Cel(
    f"oldSelf.replicas - self.replicas <= {AT_ONCE}",
    "more etcd members would leave at once than a majority of the others can do without",
    f"lower replicas by {AT_ONCE} at a time",
    ".replicas",
)
ETCD_NO_MIRROR = Cel(
    "self.type != 'Mirror' || has(self.mirror)",
    "type Mirror needs mirror",
    "set it to the URL below which the mirror serves bin/NAME/VERSION/FILE",
    ".mirror",
    holds=lambda source: source.type != "Mirror" or source.mirror is not None,
)
ETCD_NAME = Cel(
    f"self.metadata.name.size() <= {NAME_LENGTH} && self.metadata.name.matches('{NAME_PATTERN}')",
    "the name is too long or has other letters than the names of its Jobs may have",
    f"use at most {NAME_LENGTH} lower-case letters, digits and '-', a letter first",
    ".metadata.name",
    holds=lambda etcd_cluster: (
        len(etcd_cluster.metadata.name) <= NAME_LENGTH
        and re.fullmatch(NAME_PATTERN, etcd_cluster.metadata.name) is not None
    ),
)


class EtcdSites(ApiModel):
    """Where releases are, for type Upstream; default: their makers' sites."""

    kubernetes: MirrorUrl | None = Field(default=None, description="Of Kubernetes, whose kubeadm signs certificates.")
    etcd: MirrorUrl | None = Field(default=None, description="Of etcd.")


class EtcdSource(ApiModel):
    """Where members get binaries from; none of them has an image."""

    cel: ClassVar[tuple[Cel, ...]] = (ETCD_NO_MIRROR,)
    type: Literal["Mirror", "Upstream"] = Field(
        default="Mirror", description="Mirror: only from the mirror; Upstream: binaries from the makers' sites."
    )
    mirror: MirrorUrl | None = Field(
        default=None, description="URL of the mirror of binaries; required for type Mirror."
    )
    checksums: dict[str, Sha256] = mapped("SHA-256 of files on the mirror, by NAME/VERSION.", max_length=200)
    architecture: Literal["amd64", "arm64"] | None = Field(
        default=None, description="Of machines, in the makers' addresses; default: amd64."
    )
    sites: EtcdSites = part(EtcdSites, "Where releases are, for type Upstream.")


class EtcdCertificates(ApiModel):
    """For how long certificates are valid."""

    validity: Hours | None = Field(default=None, description="Of what is signed, in hours; default: a year.")
    ca_validity: Hours | None = Field(default=None, description="Of a CA that is made, in hours; default: ten years.")
    renew_before_days: int | None = Field(
        default=None, ge=0, le=3650, description="Within how many days of its end one is renewed; default: 90."
    )


class EtcdAuthority(ApiModel):
    """The CA of the members and of their clients. Where no Secret is named, the operator makes one."""

    ca_secret_ref: SecretName | None = Field(default=None, description="Secret with tls.crt and tls.key of the CA.")
    issuer_ref: IssuerRef | None = Field(
        default=None, description="Issuer that signs the CA where no Secret is named; default: it signs itself."
    )


class EtcdMaintenance(ApiModel):
    """When a member is defragmented."""

    defragment_percent: int | None = Field(
        default=None, ge=0, le=100, description="Share of a member's file that is free by then; default: 30."
    )
    defragment_mebibytes: int | None = Field(
        default=None, ge=0, le=1 << 20, description="How much of it is free by then, in MiB; default: 100."
    )


class EtcdPlaybooks(ApiModel):
    """Which playbooks the executor runs."""

    image: ImageName | None = Field(
        default=None, description="Image with the playbooks; default: the one that the manager was given."
    )


class EtcdClusterSpec(Flags):
    """The wanted etcd."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(*Flags.cel, ODD, MAJORITY_STAYS, AS_MANY_AS_NAMES),
        *(TOO_FEW_DOMAINS, ZONES_TWICE),
    )
    version: EtcdVersion = Field(description="Version of etcd.")
    replicas: int = Field(default=3, ge=1, le=MOST_MEMBERS, description="How many members: 1, 3, 5 or 7.")
    machines: MachineSource = Field(
        description="Where machines come from: exactly one of pool, names and kubevirt (with their disks and memory)."
    )
    failure_domains: FailureDomains | None = Field(
        default=None, description="Domains that fail as a whole, over which machines are spread."
    )
    backup: EtcdBackupPolicy = part(EtcdBackupPolicy, "When and where it is backed up.")
    source: EtcdSource = Field(description="Where members get binaries from.")
    authority: EtcdAuthority = part(EtcdAuthority, "A CA of one's own, which it is begun with.")
    certificates: EtcdCertificates = part(EtcdCertificates, "For how long certificates are valid.")
    maintenance: EtcdMaintenance = part(EtcdMaintenance, "When a member is defragmented.")
    health: HealthPolicy = part(HealthPolicy, "What is done about machines that are gone or hung.")
    approval: Literal["Automatic", "Manual"] = Field(
        default="Automatic", description="Manual: disruptive operations wait until a person approves."
    )
    paused: bool = Field(default=False, description="No operation begins while this is true.")
    access: Literal["Auto", "Direct", "PortForward"] = Field(
        default="Auto",
        description="Direct, PortForward, or Auto: PortForward for Machines with spec.through, else Direct.",
    )
    variables: FreeForm = mapped("Further variables of the playbooks, which no field stands for.")
    playbooks: EtcdPlaybooks = part(EtcdPlaybooks, "Which playbooks the executor runs.")
    jobs: JobPolicy = part(JobPolicy, "How executors are run, and how many are kept.")
    deletion: DeletionPolicy = part(DeletionPolicy, "What the deletion of the object does.")


EtcdPhase = Literal["Pending", "Waiting", "Deploying", "Updating", "Ready", "Degraded", "Deleting"]
Endpoints = Annotated[tuple[Line, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]


class EtcdClusterUser(StatusModel):
    """A cluster that has its keys in an EtcdCluster."""

    name: ObjectName = Field(description="ClusterDeployment.")
    prefix: Line = Field(description="What names of its keys begin with.")
    user: Line = Field(description="Its user of etcd.")


class EtcdClusterStatus(StatusModel):
    """What became of the wish."""

    observed_generation: int | None = Field(default=None, description="Generation that the status is about.")
    phase: EtcdPhase | None = Field(default=None, description="Where it is in its life.")
    version: str | None = Field(default=None, description="Version of etcd that was last deployed.")
    replicas: int | None = Field(default=None, description="How many members there are.")
    members: str | None = Field(default=None, description="Ready members of wanted members, such as 3/3.")
    endpoints: Endpoints = Field(default=(), description="URLs of the members, for clients.")
    clusters: tuple[EtcdClusterUser, ...] = listed(
        "ClusterDeployments that have their keys in it.", key="name", default=(), max_length=200
    )
    conditions: tuple[Condition, ...] = conditions("How it is; docs/operator/status.md explains each.")


class EtcdCluster(ObjectModel):
    """The wish for one etcd: the operator makes it from Machines, changes it as the wish changes, and removes it."""

    cel: ClassVar[tuple[Cel, ...]] = (ETCD_NAME,)
    spec: EtcdClusterSpec = Field(description="The wanted etcd.")
    status: EtcdClusterStatus = Field(default_factory=EtcdClusterStatus, description="What became of the wish.")


class EtcdPeerSpec(ApiModel):
    """Whose member it is. A controller writes it."""

    cluster: ObjectName = Field(description="EtcdCluster that it is a member of.")
    machine: ObjectName = Field(description="Machine that it runs on.")


class EtcdPeerStatus(StatusModel):
    """What the member said of itself when its machine was last looked into."""

    member_id: Line | None = Field(default=None, alias="memberID", description="ID of the member, in hexadecimal.")
    role: Literal["Voter", "Learner"] | None = Field(default=None, description="Whether it votes.")
    leader: bool | None = Field(default=None, description="Whether it leads.")
    has_leader: bool | None = Field(default=None, description="Whether it follows a leader, or leads.")
    size_mib: int | None = Field(default=None, alias="sizeMiB", description="Size of its file in MiB, rounded up.")
    quota_mib: int | None = Field(default=None, alias="quotaMiB", description="Size at which it takes no more writes.")
    alarm: Line | None = Field(default=None, description="Its alarm, such as NOSPACE.")
    raft_index: int | None = Field(default=None, description="Index of the last entry of raft that it has applied.")
    seen: Moment = Field(default=None, description="When its machine was last looked into.")
    conditions: tuple[Condition, ...] = conditions("Ready.")


class EtcdPeer(ObjectModel):
    """One member of an EtcdCluster. Derived: only its status counts, and it goes with the member."""

    spec: EtcdPeerSpec = Field(description="Whose member it is.")
    status: EtcdPeerStatus = Field(default_factory=EtcdPeerStatus, description="What the member says of itself.")
