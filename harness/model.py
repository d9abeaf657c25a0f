"""The words of vmatrix as frozen dataclasses: what is planned, what was made, what was seen.

Covers the stages that every part of the harness passes on to the next. Does not cover how they are loaded (spec),
chosen (plan) or carried out (cell).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from harness.rundir import AttemptDir

# How machines are reached: at their own addresses, or through the infra cluster's API.
Access = Literal["direct", "portforward"]
LABEL_DOMAIN = "vmatrix.dev"
LABEL_RUN = f"{LABEL_DOMAIN}/run"
LABEL_CELL = f"{LABEL_DOMAIN}/cell"
LABEL_ATTEMPT = f"{LABEL_DOMAIN}/attempt"
LABEL_EXPIRES = f"{LABEL_DOMAIN}/expires-at"  # seconds since the epoch: a label value cannot hold RFC 3339's colons
LABEL_MACHINE = f"{LABEL_DOMAIN}/machine"
ANNOTATION_USER = f"{LABEL_DOMAIN}/login-user"  # on a VirtualMachine: whom to log in as
LABEL_MANAGED = "app.kubernetes.io/managed-by"
MANAGED_BY = "vmatrix"


class Outcome(StrEnum):
    """What a step, a check, an attempt or a cell came to. A check has one of the first three."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not-run"  # of a check; its findings say why
    INTERRUPTED = "interrupted"
    UNFINISHED = "unfinished"  # begun, and its end was never written down
    UNCHECKED = "unchecked"  # came and went, and no check of it passed or failed
    NOT_STARTED = "not started"
    QUARANTINED = "quarantined"


@dataclass(frozen=True)
class PlannedMachine:
    """One machine of a cell, before it exists. Memory and disk are in MiB and GiB."""

    name: str
    groups: tuple[str, ...]
    cpus: int
    memory_mib: int
    disk_gib: int
    image: str


@dataclass(frozen=True)
class Phase:
    """One stage of a cell's life.

    then: in words, what must be true afterwards.  cluster: whether there is a cluster afterwards.
    machines: names of those in the inventory during the phase.  removed: those of them that leave the cluster in it.
    lost: those of them that are destroyed before it.
    deletes: whether the machines that leave are gone afterwards, as the product made them.
    values, vars: the axis values and the playbook variables that hold during the phase.
    seconds: how long the product says that one run takes; None when it does not say.
    idempotent: whether the product says that a second run, right after the first, changes nothing.
    between: the variables of the steps that the phase goes through by itself, in their order.
    workload: what becomes of a workload during the phase ("keeps-answering"), "" when nothing is said of it.
    restart: how machines restart instead of a phase of the product ("power-cut"), "" when they do not.
    restarts: names of those machines.
    data_of: the index of the phase whose beginning the cluster's data may be from afterwards; None: this phase's own.
    delivery: what becomes of a delivered application ("answers"), "" when nothing is said of one.
    delivery_into: where it runs ("guest"), "" beside the machines.
    """

    name: str
    then: str = ""
    cluster: bool = True
    machines: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    deletes: bool = False
    seconds: float | None = None
    idempotent: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    between: tuple[Mapping[str, Any], ...] = ()
    workload: str = ""
    restart: str = ""
    restarts: tuple[str, ...] = ()
    data_of: int | None = None
    delivery: str = ""
    delivery_into: str = ""


@dataclass(frozen=True)
class Cell:
    """One choice on every axis = one guest cluster's whole life.

    `values` maps axis to value id, in the axes' order; `vars` is what those values give the playbooks.
    """

    id: str
    values: Mapping[str, str]
    scenario: str
    phases: tuple[Phase, ...]
    machines: tuple[PlannedMachine, ...]
    vars: Mapping[str, Any]

    @property
    def pulls_deliveries(self) -> bool:
        """Tell whether machines run an application that is delivered in one of the phases."""
        return any(phase.delivery_into for phase in self.phases)

    def stage(self, index: int) -> str:
        """Return a phase's name in steps, logs and items: its own, numbered from the second of that name on."""
        name = self.phases[index].name
        number = sum(phase.name == name for phase in self.phases[: index + 1])
        return name if number == 1 else f"{name}-{number}"


def ip_version(text: str) -> int:
    """Return 4 or 6: the IP family of an address or network; 4 where there is none."""
    return 6 if ":" in text else 4


@dataclass(frozen=True)
class Machine:
    """A machine that exists and can be logged in to.

    address: at which the harness reaches it.  ipv6_address: "" where it has none.
    tunnels: the file that says how it is reached through the infra cluster's API; None: at its own address.
    connect_seconds: how long a direct connection and sshd's first line may take.
    ssh_host, ssh_options: of a machine that vmatrix did not make: what ssh is asked for, "" for the address, so that
    its own configuration of that name holds; and the options that it needs for this machine alone.
    """

    planned: PlannedMachine
    address: str
    port: int
    user: str
    tunnels: Path | None = None
    connect_seconds: float = 5.0
    ipv6_address: str = ""
    ssh_host: str = ""
    ssh_options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the machine's name, which is its hostname and its VirtualMachine's name."""
        return self.planned.name

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the inventory groups that the machine is in."""
        return self.planned.groups

    def node_address(self, pods: str) -> str:
        """Return the machine's first address as a node of a cluster with this pod network (CIDR)."""
        return self.ipv6_address or self.address if ip_version(pods) == 6 else self.address


@dataclass(frozen=True)
class Environment:
    """The machines of one cell, ready for the playbooks.

    directory: of the attempt's files; `files` tells what lies where in it.
    options: those that name its infra cluster to a vmatrix command.
    """

    run: str
    cell: Cell
    attempt: int
    namespace: str
    machines: tuple[Machine, ...]
    directory: Path
    private_key: Path
    options: tuple[str, ...] = ()

    @property
    def files(self) -> AttemptDir:
        """Return what lies where in the directory."""
        return AttemptDir(self.directory)

    @property
    def tunnels(self) -> Path | None:
        """Return the file that says how the machines are reached through the infra cluster's API."""
        return next((m.tunnels for m in self.machines), None)

    @property
    def names(self) -> dict[tuple[str, int], str]:
        """Return the machines' names, by address and port."""
        return {(m.address, m.port): m.name for m in self.machines}

    def only(self, names: Collection[str]) -> Environment:
        """Return the same environment with only these machines."""
        return replace(self, machines=tuple(m for m in self.machines if m.name in names))

    def group(self, name: str) -> tuple[Machine, ...]:
        """Return the machines of an inventory group, in inventory order."""
        return tuple(m for m in self.machines if name in m.groups)


@dataclass(frozen=True)
class GuestCluster:
    """A deployed guest cluster: its environment, an admin kubeconfig, and the versions it is expected to have."""

    environment: Environment
    kubeconfig: Path
    expected: Mapping[str, Any]


@dataclass(frozen=True)
class Mirror:
    """Where guests find binaries and images.

    `http` serves binaries as {http}/bin/NAME/VERSION/FILE and disk images as {http}/images/FILE;
    `registry` is host:port of an OCI registry spoken to in plain HTTP.
    `ipv6`: the same at an IPv6 address, where there is one; None: at the same address, or not at all.
    `prefix`: what names of its images begin with in guests that know it by another name than `registry`; "": that.
    """

    http: str
    registry: str
    ipv6: Mirror | None = None
    prefix: str = ""

    @property
    def images(self) -> str:
        """Return what names of its images begin with in guests."""
        return self.prefix or self.registry

    def over(self, version: int) -> Mirror:
        """Return where machines of a cluster whose nodes have addresses of IPv4 or IPv6 (4 or 6) find it."""
        return self.ipv6 if version == 6 and self.ipv6 is not None else self
