"""Which machines go first when a set is to have fewer."""

from __future__ import annotations

from typing import Any

from harness.operator.api.machine import DeclaredMachine
from harness.operator.decide.surplus import scale_in_order
from tests.unit.operator.api import objects


def machine(name: str, phase: str = "Ready", made: str = "2026-01-01T00:00:00Z", **annotations: str) -> DeclaredMachine:
    found: dict[str, Any] = objects.machine(name)
    marks = {f"cluster.vmatrix.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    found["metadata"] |= {"creationTimestamp": made, "annotations": marks}
    return DeclaredMachine.model_validate({**found, "status": {"phase": phase}})


def test_not_ready_then_marked_then_last_made() -> None:
    machines = [
        machine("w-1"),
        machine("w-2", delete_me="yes"),
        machine("w-3", "NotReady"),
        machine("w-4", made="2026-01-02T00:00:00Z"),
    ]
    assert scale_in_order(machines) == ["w-3", "w-2", "w-4", "w-1"]


def test_of_one_second_the_highest_number_was_last() -> None:
    assert scale_in_order([machine("w-9"), machine("w-10"), machine("w-2")]) == ["w-10", "w-9", "w-2"]
