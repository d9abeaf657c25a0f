"""matrix/topologies.yml: the machines of a cell, and their groups."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from harness.spec.base import MACHINE, Group, Model, Quantity, Whole, mebibytes

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
