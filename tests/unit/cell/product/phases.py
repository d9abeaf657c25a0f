"""A phase of a cell with three machines, for tests of programs that carry phases out."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cell.product.command import Commands
from harness.cell.product.protocol import PhaseOutcome, PhaseRun
from harness.machines import inventory
from harness.model import Cell, Environment, Machine, Phase, PlannedMachine
from harness.spec.models import Product

SECONDS = 30.0  # of a phase, against hanging
GROUPS = {"cp-0": ("control_plane", "etcd"), "w-0": ("node",), "w-1": ("node",)}
PHASES = (
    Phase("deploy", machines=("cp-0", "w-0")),
    Phase("scale-out", machines=("cp-0", "w-0", "w-1")),
    Phase("scale-in", machines=("cp-0", "w-0", "w-1"), removed=("w-1",)),
    Phase("recover", machines=("cp-0", "w-0"), lost=("w-0",)),
    Phase("reset", machines=("cp-0",), cluster=False),
    Phase("deploy", machines=("cp-0",)),
)
VARIABLES: dict[str, Any] = {
    "cluster_kubernetes_version": "1.36.3",
    "cluster_mirror_url": "http://mirror:8080",
    "cluster_image_registry": "mirror:5000",
    "cluster_kubelet_config": {"failCgroupV1": False},
    "cluster_containerd_systemd_cgroup": True,
    "nothing": None,
    "cluster_hosts": [{"name": "cp-0"}],
}
PRODUCT = Product.model_validate(
    {
        "name": "script",
        "kind": "command",
        "directory": "deploy",
        "groups": {"control_plane": "masters", "etcd": [], "node": ["workers", "pool-a"]},
        "phases": {phase.name: {"command": ["./run.sh", "a b"]} for phase in PHASES},
    }
)


@dataclass
class Phased:
    """A product of one shell script, in a project, and a cell to use it on."""

    folder: Path
    told: list[str] = field(default_factory=list)
    product: Product = PRODUCT

    def script(self, text: str) -> Path:
        """Write the product's program."""
        file = self.folder / "deploy" / "run.sh"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def environment(self) -> Environment:
        """Return the cell's machines."""
        machines = tuple(
            Machine(PlannedMachine(name, groups, 1, 512, 10, "i"), f"192.0.2.{number}", 22, "debian")
            for number, (name, groups) in enumerate(GROUPS.items(), start=1)
        )
        cell = Cell("one", {}, "life", PHASES, (), {})
        return Environment("run111", cell, 1, "ns", machines, self.folder / "one", self.folder / "one" / "id")

    def wanted(self, index: int = 0, seconds: float = SECONDS) -> PhaseRun:
        """Return a phase that is to be run, its files written as a life writes them."""
        whole, phase = self.environment(), PHASES[index]
        environment = whole.only(phase.machines)
        variables = {**VARIABLES, "cluster_kubeconfig_path": str(environment.files.kubeconfig)}
        inventory.write(environment, variables, self.product)
        stage = environment.cell.stage(index)
        return PhaseRun(phase, stage, environment, variables, seconds, environment.files.log(stage), self.told.append)

    def run(self, index: int = 0, seconds: float = SECONDS) -> PhaseOutcome:
        """Run a phase."""
        return Commands(self.product, self.folder).run(self.wanted(index, seconds))
