"""Machine: one machine that exists, how to log in to it, who has claimed it and how it is."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.networks import VERSIONS, IpFamily, ip_version
from harness.operator.api.resources import Hostname, Line, LoginUser, ObjectName, SecretKey
from harness.operator.api.sets import MachineInfrastructure, MachineRole, MadeMachine

Words = Annotated[tuple[Line, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]
Time = Annotated[str | None, Field(json_schema_extra={"format": "date-time"})]
FILES = 100  # a control plane has 20 to 25 of the playbooks' files


class MachineCertificates(StatusModel):
    """When certificates on the machine expire."""

    first_expiry: Time = Field(default=None, description="When the first one expires that an operation can renew.")
    file: Line | None = Field(default=None, description="File with that certificate.")
    other_expiry: Time = Field(default=None, description="When the first of all others expires.")
    other_file: Line | None = Field(default=None, description="File with that other certificate.")


class MachineEtcd(StatusModel):
    """What the machine's member of etcd says of itself, in steps, so that a member at rest changes nothing here."""

    alarm: Line = Field(default="", description="Its alarm, such as NOSPACE.")
    has_leader: bool = Field(default=True, description="Whether it follows a leader.")
    size_mib: int = Field(default=0, alias="sizeMiB", description="Size of its file in MiB, in steps of 8, rounded up.")
    free_mib: int = Field(
        default=0, alias="freeMiB", description="How much of that is free, in steps of 8, rounded down."
    )
    quota_mib: int = Field(default=0, alias="quotaMiB", description="Size at which it takes no more writes.")
    fsync_milliseconds: int = Field(
        default=0, description="Milliseconds within which 99 in 100 writes to its disk ended, since it began."
    )
    round_trip_milliseconds: int = Field(
        default=0, description="Milliseconds within which 99 in 100 round trips to its peers ended, since it began."
    )


class MachineSettings(StatusModel):
    """What the last operation that wrote settings has left in the files that the playbooks own."""

    seen: Line = Field(default="", description="The last operation that had ended before the look, whatever it did.")
    operation: Line = Field(default="", description="The operation, as SEQUENCE-ATTEMPT.")
    files: Words = Field(
        default=(), max_length=FILES, description="First 16 digits of the SHA-256 of each file, and its path."
    )
    changed: Words = Field(
        default=(), max_length=FILES, description="The same of files that were changed since; - for one that is gone."
    )


class MachineRemediation(StatusModel):
    """A restart of the machine, which is not repeated before the node was ready again."""

    step: Line = Field(default="", description="What was done: Restart.")
    at: Time = Field(default=None, description="When it was decided.")
    instance: Line | None = Field(default=None, description="UID of the instance that was to end.")


Phase = Literal[
    "Pending",
    "Idle",
    "Claimed",
    "Provisioning",
    "Provisioned",
    "Deploying",
    "Deployed",
    "Ready",
    "NotReady",
    "Removing",
    "Unreachable",
    "Lost",
    "Failed",
]
Address = Annotated[str, StringConstraints(min_length=1, max_length=45)]

HOST_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
MACHINE_NAME = Cel(
    f"has(self.spec.hostname) || (self.metadata.name.size() <= 63 && self.metadata.name.matches('{HOST_PATTERN}'))",
    "the name is not a hostname",
    "set spec.hostname, or use at most 63 lower-case letters, digits and '-'",
    ".metadata.name",
    holds=lambda machine: (
        machine.spec.hostname is not None
        or (len(machine.metadata.name) <= 63 and re.fullmatch(HOST_PATTERN, machine.metadata.name) is not None)
    ),
)
NO_ADDRESS = Cel(
    "!has(self.address) || isIP(self.address)",
    "the address is not an IP address",
    "write the address at which other machines reach this one",
    ".address",
    holds=lambda spec: spec.address is None or ip_version(spec.address) != 0,
)
NO_IPV6_ADDRESS = Cel(
    "!has(self.ipv6Address) || (isIP(self.ipv6Address) && ip(self.ipv6Address).family() == 6)",
    "the address is not an IPv6 address",
    "write the IPv6 address at which other machines reach this one",
    ".ipv6Address",
    holds=lambda spec: spec.ipv6_address is None or ip_version(spec.ipv6_address) == 6,
)
GIVEN_OR_MADE = Cel(
    "has(self.address) != has(self.kubevirt)",
    "a machine is either given or made",
    "set address for a machine that exists, or kubevirt for one that is to be made",
    holds=lambda spec: (spec.address is None) != (spec.kubevirt is None),
)
ADDRESSES_OF_MADE = Cel(
    "!has(self.kubevirt) || !has(self.ipv6Address)",
    "the addresses of a machine that is made are those of its launcher pod",
    "remove ipv6Address",
    ".ipv6Address",
    holds=lambda spec: spec.kubevirt is None or spec.ipv6_address is None,
)
MADE_STAYS = Cel(
    "has(self.kubevirt) == has(oldSelf.kubevirt) && (!has(self.kubevirt) || self.kubevirt == oldSelf.kubevirt)",
    "what a machine is made of cannot change",
    "delete the Machine; its set makes another one",
    ".kubevirt",
)
HOSTNAME_STAYS = Cel(
    "!has(oldSelf.claim) || (has(self.hostname) ? self.hostname : '') == "
    "(has(oldSelf.hostname) ? oldSelf.hostname : '')",
    "the hostname of a claimed machine cannot change",
    "remove the machine from its cluster first",
    ".hostname",
)


class KeyRef(ApiModel):
    """The Secret that has the private SSH key."""

    name: ObjectName = Field(description="Name of the Secret, in the namespace of the Machine.")
    key: SecretKey = Field(default="ssh-privatekey", description="Key of the Secret.")


class MachineThrough(ApiModel):
    """What connections to the machine lead through."""

    virtual_machine_instance: ObjectName = Field(description="VirtualMachineInstance whose ports KubeVirt forwards.")


class MachineClaim(ApiModel):
    """Who has claimed the machine. A controller writes it."""

    cluster: ObjectName = Field(description="ClusterDeployment or EtcdCluster that has it.")
    set_name: ObjectName = Field(alias="set", description="Set of that object.")
    uid: Line | None = Field(default=None, description="UID of that object.")


class DeclaredMachineSpec(ApiModel):
    """How to log in to the machine, and who has claimed it."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(GIVEN_OR_MADE, NO_ADDRESS, NO_IPV6_ADDRESS, ADDRESSES_OF_MADE),
        *(MADE_STAYS, HOSTNAME_STAYS),
    )
    address: Address | None = Field(default=None, description="IP address at which other machines reach it.")
    ipv6_address: Address | None = Field(
        default=None, description="IPv6 address besides, which a cluster of both IP families or of IPv6 needs."
    )
    port: int = Field(default=22, ge=1, le=65535, description="Port of its SSH server.")
    user: LoginUser = Field(description="User who logs in, and who may become root without a password.")
    hostname: Hostname | None = Field(
        default=None, description="Hostname and name of the node; default: the Machine's name."
    )
    key_ref: KeyRef = Field(description="The Secret that has the private SSH key.")
    through: MachineThrough | None = Field(default=None, description="What connections to the machine lead through.")
    kubevirt: MadeMachine | None = Field(
        default=None, description="What the operator makes it of; a machine that is given has an address instead."
    )
    claim: MachineClaim | None = Field(default=None, description="Who has claimed it; a controller writes this.")


class MachineNode(StatusModel):
    """The machine as a node of its cluster."""

    name: str = Field(default="", description="Name of the node.")
    uid: str = Field(default="", description="UID of the node.")
    version: str = Field(default="", description="Version of its kubelet.")
    ready: Literal["True", "False", "Unknown"] = Field(default="Unknown", description="Condition Ready of the node.")
    since: str | None = Field(default=None, description="Since when.", json_schema_extra={"format": "date-time"})


class MachineFacts(StatusModel):
    """What the machine says of itself."""

    os: Line = Field(default="", description="Operating system.")
    cpus: int = Field(default=0, description="Number of processors.")
    memory_mib: int = Field(default=0, alias="memoryMiB", description="Memory in MiB.")
    machine_id: Line = Field(default="", alias="machineID", description="Content of /etc/machine-id.")


class DeclaredMachineStatus(StatusModel):
    """How the machine is."""

    phase: Phase | None = Field(default=None, description="Where it is in its life.")
    roles: tuple[MachineRole, ...] = Field(default=(), description="What it is in its cluster.")
    node: MachineNode | None = Field(default=None, description="The machine as a node of its cluster.")
    facts: MachineFacts | None = Field(default=None, description="What the machine says of itself.")
    certificates: MachineCertificates | None = Field(default=None, description="When certificates on it expire.")
    etcd: MachineEtcd | None = Field(default=None, description="What its member of etcd says of itself.")
    settings: MachineSettings | None = Field(default=None, description="What the last operation left in its files.")
    remediation: MachineRemediation | None = Field(default=None, description="What was last done to repair it.")
    infrastructure: MachineInfrastructure | None = Field(
        default=None, description="The machine as a VirtualMachineInstance."
    )
    conditions: tuple[Condition, ...] = conditions(
        "InfrastructureReady, Reachable, Empty, InUse, NodeReady, Answering, SettingsAsApplied, Healthy."
    )


class DeclaredMachine(ObjectModel):
    """One machine, given to the operator or made by it: how to log in to it, who has claimed it, and how it is."""

    cel: ClassVar[tuple[Cel, ...]] = (MACHINE_NAME,)
    spec: DeclaredMachineSpec = Field(description="How to log in to the machine, and who has claimed it.")
    status: DeclaredMachineStatus = Field(default_factory=DeclaredMachineStatus, description="How the machine is.")

    @property
    def hostname(self) -> str:
        """Return its hostname, which is its name in the inventory."""
        return self.spec.hostname or self.metadata.name

    @property
    def made(self) -> bool:
        """Tell whether the operator makes it."""
        return self.spec.kubevirt is not None

    @property
    def address(self) -> str:
        """Return the address at which other machines reach it, "" while it has none."""
        infrastructure = self.status.infrastructure
        return self.spec.address or (infrastructure.address if infrastructure is not None else "")

    @property
    def ipv6_address(self) -> str:
        """Return its IPv6 address, "" while it has none."""
        infrastructure = self.status.infrastructure
        return self.spec.ipv6_address or (infrastructure.ipv6_address if infrastructure is not None else "")

    @property
    def families(self) -> tuple[IpFamily, ...]:
        """Return the IP families of its addresses."""
        versions = {ip_version(text) for text in (self.address, self.ipv6_address) if text}
        return tuple(family for family, version in VERSIONS.items() if version in versions)

    @property
    def instance(self) -> str:
        """Return the VirtualMachineInstance that connections lead through, "" where they go directly."""
        if self.spec.through is not None:
            return self.spec.through.virtual_machine_instance
        return self.metadata.name if self.made else ""
