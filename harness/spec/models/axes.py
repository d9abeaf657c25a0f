"""matrix/axes.yml and matrix/topologies.yml: the axes with their values, and the machines of each topology.

How long a cell's id may become is decided here as well: its parts are the slugs of values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date
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
MachineName = Annotated[str, StringConstraints(pattern=MACHINE)]


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


def completed(axes: Iterable[Axis], cell: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a cell with the default of every axis that it does not name, or an axis' only value."""
    usual = {axis.name: axis.values[0].id if len(axis.values) == 1 else axis.default for axis in axes}
    return {**{axis: value for axis, value in usual.items() if value is not None}, **cell}


def id_length(slugs: Mapping[str, str]) -> int:
    """Return how many characters of a cell's id count against ID_LENGTH, by its slugs.

    The first PRODUCT_LETTERS of the product's slug, and the hyphen behind them, do not count.
    """
    room = PRODUCT_LETTERS + 1
    own = slugs.get(PRODUCT, "")
    return sum(len(slug) + 1 for slug in slugs.values() if slug) + HASH_DIGITS - (min(len(own) + 1, room) if own else 0)


def fitting_slugs(slugs: Mapping[str, str], optional: Collection[str]) -> dict[str, str]:
    """Return the slugs by axis that fit into ID_LENGTH; the hash tells cells with the same slugs apart.

    Args:
        optional: axes with a default. Where an id would be too long, their slugs are left out, the last ones first.
    """
    kept = {axis: slug for axis, slug in slugs.items() if slug}
    for axis in reversed([axis for axis in kept if axis in optional and axis != PRODUCT]):
        if id_length(kept) <= ID_LENGTH:
            break
        del kept[axis]
    return kept
