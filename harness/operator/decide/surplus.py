"""Which machines of a set go first when it is to have fewer; pure."""

from __future__ import annotations

from collections.abc import Iterable

from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import DELETE_ANNOTATION
from harness.operator.decide.hosts import natural


def scale_in_order(machines: Iterable[DeclaredMachine]) -> list[str]:
    """Return the names of machines: not ready ones first, then those that a person marked, then the last made."""
    latest = sorted(machines, key=lambda one: (one.metadata.creation_timestamp or "", natural(one.metadata.name)))
    latest.reverse()
    return [one.metadata.name for one in sorted(latest, key=_rank)]


def _rank(machine: DeclaredMachine) -> tuple[bool, bool]:
    return machine.status.phase == "Ready", DELETE_ANNOTATION not in machine.metadata.annotations
