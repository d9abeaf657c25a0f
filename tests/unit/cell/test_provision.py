"""Machines that a cell's product makes: which cells have them, what is said of them, how they are lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell import provision
from harness.cell.site import Site
from harness.kube.resources import VM, VMI, Resource
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import PlannedMachine
from harness.paths import packaged_dir
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.unit.shipped_timeouts import TIMEOUTS

SPEC = load_spec(packaged_dir() / "matrix")


@dataclass
class Outer:
    """An infra cluster whose instances are there for one look after their machines are deleted."""

    machines: set[tuple[str, str]]
    asked: list[tuple[str, str, int | None]] = field(default_factory=list)
    looks: int = 0

    def delete(self, kind: Resource, name: str, namespace: str, *, grace: int | None = None) -> None:
        """Take note of a deletion."""
        self.asked.append((f"{kind.kind} {namespace}", name, grace))
        self.machines.discard((kind.kind, name))

    def get(self, kind: Resource, name: str, _namespace: str) -> object | None:
        """Return whether an object is there; instances go while somebody looks on."""
        self.looks += 1
        there = (kind.kind, name) in self.machines
        if kind == VMI:
            self.machines.discard((kind.kind, name))
        return {} if there else None


@pytest.mark.parametrize(("product", "makes"), [("playbooks", False), ("operator", False), ("operator-vm", True)])
def test_the_product_says_whether_it_makes_machines(product: str, makes: bool) -> None:
    tier = "lifecycle" if product == "playbooks" else "operator-lifecycle"
    cells = [cell for cell in tier_cells(SPEC, tier, "embedded") if cell.values["product"] == product]
    site = SimpleNamespace(product_of=lambda cell: SPEC.product_of(cell.values))
    assert {provision.by_product(cast("Site", site), cell) for cell in cells} == {makes}
    assert {phase.deletes for cell in cells for phase in cell.phases} == {makes}


def test_a_template_is_told_what_a_machine_is_to_be() -> None:
    planned = PlannedMachine("w-10", ("node",), 2, 1536, 12, "debian-13")
    image = GoldenImage("debian-13", "http://mirror/d.qcow2", "sha256:ab", "10Gi", "debian")
    wanted: dict[str, Any] = {"name": "w-10", "set": "w", "cpus": 2, "memory_mib": 1536, "disk_gib": 12}
    more = {"user": "debian", "image": {"url": "http://mirror/d.qcow2", "checksum": "sha256:ab"}}
    assert provision.told(planned, image) == {**wanted, **more}


def test_machines_are_lost_at_once_and_waited_for() -> None:
    there = {(kind.kind, name) for kind in (VM, VMI) for name in ("cp-1", "cp-2", "w-0")}
    outer = Outer(set(there))
    provision.destroy(cast("Site", SimpleNamespace(cluster=outer, timeouts=TIMEOUTS)), "cell", ("cp-1", "cp-2"))
    assert outer.asked == [("VirtualMachine cell", "cp-1", 0), ("VirtualMachine cell", "cp-2", 0)]
    assert outer.machines == {(kind.kind, "w-0") for kind in (VM, VMI)}
    assert outer.looks > 4, "instances were there for a look"
