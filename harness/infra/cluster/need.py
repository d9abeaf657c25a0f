"""What the largest cell asks of an infra cluster, as its checks need to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """A cell's demand.

    what: the cell, for a person.  memory_mib, cpus: of all its launcher pods.  machines, storage_gib: how many, and
    their disks together.  largest_mib: of the launcher pod that asks for most: it has to fit on one node.
    required: whether nothing is worth starting where it does not fit; else smaller cells are.
    """

    what: str = "the cell"
    memory_mib: int = 0
    cpus: float = 0.0
    machines: int = 0
    storage_gib: int = 0
    largest_mib: int = 0
    required: bool = True
