"""matrix/axes.yml, matrix/topologies.yml and matrix/network_plugins.yml: the axes, and what stands behind values.

The playbooks read network_plugins.yml, too, so that they and the checks go by the same facts; hence its key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from harness.spec.base import (
    MACHINE,
    Day,
    Feature,
    Group,
    Model,
    Name,
    Quantity,
    Slug,
    Text,
    Variables,
    Whole,
    mebibytes,
)

ID_LENGTH = 44  # of a cell: namespaces are "vmatrix-" + id + attempt and must stay under 63 characters
HASH_DIGITS = 6  # at the end of a cell's id
PRODUCT_LETTERS = 2  # of a product's slug that do not count: such cells have no shared namespace, with longer names
PRODUCT = "product"  # the axis whose values may be products of their own


class Extension(Model):
    """Why a value stays in the matrix after its makers' support, and until when."""

    until: Day = Field(description="Last day (date) on which it stays.")
    why: Text = Field(description="The reason.")


class Support(Model):
    """From when until when a value is supported by its makers, and how much longer it is tested."""

    from_: Day = Field(alias="from", description="First day (date) of the support.")
    until: Day = Field(description="Last day (date) of the support.")
    extended: Extension | None = Field(default=None, description="Why it is tested longer.")

    @model_validator(mode="after")
    def _in_order(self) -> Support:
        if self.until < self.from_:
            raise ValueError(f"`until` ({self.until}) is before `from` ({self.from_})")
        if self.extended is not None and self.extended.until <= self.until:
            raise ValueError(f"`extended` ends on {self.extended.until}, which is not after `until`; remove it")
        return self

    @property
    def ends(self) -> date:
        """Return the last day on which the value may stay in the matrix."""
        return self.extended.until if self.extended is not None else self.until


class AxisValue(Model):
    """One value of an axis.

    id: its name, in the lock and on the command line.  slug: stands in cell ids; default: the id's letters and digits.
    label: what it is, in words.  class: values of one class stand for each other when values are paired.
    vars: variables that it gives the product, in every phase.  paths: globs of files whose change can affect it.
    image: the disk image (matrix/images.yml) of all machines of the cell.
    support: the dates between which its makers support it.
    needs: what the infra cluster must offer (matrix/infras.yml).
    before: by a word (`patch`, `minor`), the value of the same axis that an upgrade to this one starts from.
    product: on the axis `product`, the file in matrix/ of what is tested in place of product.yml.
    """

    id: Name
    slug: Slug | None = None
    label: Text
    class_: Text = Field(alias="class")
    vars: Variables = Field(default_factory=dict)
    paths: tuple[Text, ...] = ()
    image: Name | None = None
    support: Support | None = None
    needs: tuple[Feature, ...] = ()
    before: dict[Name, Name] = Field(default_factory=dict)
    product: Text | None = None

    @property
    def short(self) -> str:
        """Return what stands in cell ids."""
        return self.slug if self.slug is not None else re.sub(r"[^a-z0-9]", "", self.id)


class Axis(Model):
    """One thing that varies.

    name: its name.  label: what it is, in words.  values: what there is to choose from.
    default: the value that cells had before there was this axis. It stands in no cell id, so an axis that comes later
    keeps the ids, and with them the history, of existing cells.
    """

    name: Name
    label: Text
    default: Name | None = None
    values: tuple[AxisValue, ...] = Field(min_length=1)

    def value(self, value_id: str) -> AxisValue:
        """Return a value; KeyError when there is none."""
        for value in self.values:
            if value.id == value_id:
                return value
        raise KeyError(value_id)

    def in_ids(self, value: AxisValue) -> str:
        """Return what stands in cell ids for a value of this axis, nothing for the default."""
        return "" if value.id == self.default else value.short


def completed(axes: Iterable[Axis], cell: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a cell with the default of every axis that it does not name, or an axis' only value."""
    usual = {axis.name: axis.values[0].id if len(axis.values) == 1 else axis.default for axis in axes}
    return {**{axis: value for axis, value in usual.items() if value is not None}, **cell}


def counted(slugs: Mapping[str, str]) -> int:
    """Return how long the id of a cell is with these slugs by axis, as far as the limit is about it."""
    room = PRODUCT_LETTERS + 1
    own = slugs.get(PRODUCT, "")
    return sum(len(slug) + 1 for slug in slugs.values() if slug) + HASH_DIGITS - (min(len(own) + 1, room) if own else 0)


def fitting(slugs: Mapping[str, str], optional: Collection[str]) -> dict[str, str]:
    """Return the slugs by axis that a cell's id has room for; its hash tells cells apart whose slugs are the same.

    Args:
        optional: axes with a default. Where an id would be too long, their slugs are left out, the last ones first.
    """
    kept = {axis: slug for axis, slug in slugs.items() if slug}
    for axis in reversed([axis for axis in kept if axis in optional and axis != PRODUCT]):
        if counted(kept) <= ID_LENGTH:
            break
        del kept[axis]
    return kept


MachineName = Annotated[str, StringConstraints(pattern=MACHINE)]


class MachineGroup(Model):
    """Machines of one kind in a topology: NAME-0, NAME-1, ...

    name: NAME of the machines.  count: how many there are.  groups: the groups of the inventory that they are in.
    cpus: virtual CPUs of each.  memory: of each, in Mi or Gi, such as `2Gi`.  disk: of each, in Mi or Gi.
    """

    name: MachineName
    count: Whole = Field(ge=1, le=9)
    groups: tuple[Group, ...] = Field(min_length=1)
    cpus: Whole = Field(ge=1, le=64)
    memory: Quantity
    disk: Quantity

    @property
    def memory_mib(self) -> int:
        """Return the guest's memory in MiB."""
        return mebibytes(self.memory)

    @property
    def disk_mib(self) -> int:
        """Return the disk's size in MiB."""
        return mebibytes(self.disk)

    @property
    def disk_gib(self) -> int:
        """Return the disk's size in GiB, rounded up."""
        return -(-self.disk_mib // 1024)


class Topology(Model):
    """Machines and their groups.

    machines: the kinds of machines.
    """

    machines: tuple[MachineGroup, ...] = Field(min_length=1)


LOOK = "the network plugin's pods' logs; ip route and ip -d link on both machines"
NamespacedName = Annotated[str, StringConstraints(pattern=r"^[^/]+/[^/]+$")]


class Gateway(StrEnum):
    """What a node's route to another node's pods leads through."""

    NODE = "node"
    SUBNET = "subnet"

    @property
    def words(self) -> str:
        """The same, as a check's claim puts it."""
        return {
            Gateway.NODE: "the other node's address",
            Gateway.SUBNET: "the first address of the other node's pod network",
        }[self]


class Traces(Model):
    """What a plugin leaves behind on a machine and `reset` removes.

    interfaces: names of network interfaces.  route_protocols: routes, by the numbers of their protocols.
    paths: files and folders.  firewall_tables: tables of nftables.
    firewall_chains: chains of iptables, by the beginning of their names.
    """

    interfaces: tuple[Text, ...] = ()
    route_protocols: tuple[int, ...] = ()
    paths: tuple[Text, ...] = ()
    firewall_tables: tuple[Text, ...] = ()
    firewall_chains: tuple[Text, ...] = ()


class NetworkPlugin(Model):
    """One network plugin; the file's own comment explains each key. What it does not say is not judged.

    unit: its systemd unit, enabled on every node; without it, it has none.
    gateway: what a node's route to another node's pods leads through: the other `node`'s address, or the first address
        of the other node's pod `subnet`.
    look: where to look when pods do not reach each other.
    tunnel: interface that wraps packets between nodes; without it, packets travel as they are.
    ipv6_tunnel: the same for packets of IPv6.
    daemon_set: NAMESPACE/NAME of its DaemonSet; without it, it runs no pods.
    image: repository of its image in the registry.  version: the variable with the version of the image.
    replaces_kube_proxy: whether it leads to Services itself, so that kube-proxy may be left out.
    leaves: what `reset` removes.
    """

    unit: Text | None = None
    gateway: Gateway | None = None
    look: Text = LOOK
    tunnel: Text | None = None
    ipv6_tunnel: Text | None = None
    daemon_set: NamespacedName | None = None
    image: Text | None = None
    version: Text | None = None
    replaces_kube_proxy: bool = False
    leaves: Traces = Traces.model_construct()

    @property
    def daemon(self) -> tuple[str, str] | None:
        """The namespace and the name of its DaemonSet."""
        namespace, _, name = (self.daemon_set or "").partition("/")
        return (namespace, name) if name else None


class NetworkPluginsFile(Model):
    """matrix/network_plugins.yml.

    cluster_network_plugins: the network plugins, by the name in the variable `cluster_network_plugin`.
    """

    network_plugins: dict[Name, NetworkPlugin] = Field(alias="cluster_network_plugins", min_length=1)
