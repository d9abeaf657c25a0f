"""The files that a program of a product reads: its phase's machines in several forms, and the variables as JSON."""

from __future__ import annotations

import json
from typing import Any

from harness.cell.product.protocol import PhaseRun
from harness.cell.product.ssh_config import ssh_config
from harness.files import write_atomically
from harness.machines.access import control_directory
from harness.machines.inventory import GROUPS
from harness.model import Cell, Machine
from harness.spec.models import Product


def joining(cell: Cell, stage: str) -> tuple[str, ...]:
    """Return the machines of a phase that are not part of a cluster before it: in the first deployment all of them."""
    index = next(n for n in range(len(cell.phases)) if cell.stage(n) == stage)
    there: set[str] = set()
    if index and cell.phases[index - 1].cluster:
        before = cell.phases[index - 1]
        there = set(before.machines) - {*before.removed, *before.lost}
    phase = cell.phases[index]
    return tuple(name for name in phase.machines if name not in {*there, *phase.lost})


def write_files(wanted: PhaseRun, product: Product) -> None:
    """Write the inventory in forms that any program reads, and the variables as JSON, beside Ansible's."""
    environment, files = wanted.environment, wanted.environment.files
    control = control_directory(environment.run, environment.cell.id)
    control.mkdir(mode=0o700, exist_ok=True)
    write_atomically(files.ssh_config, ssh_config(environment, control))
    write_atomically(files.machines, _json(inventory_of(wanted, product)))
    write_atomically(files.variables_json, _json(wanted.variables))


def inventory_of(wanted: PhaseRun, product: Product) -> dict[str, Any]:
    """Return the machines of a phase: how each is reached, its groups by our names and the product's, what it does."""
    phase, new = wanted.phase, joining(wanted.environment.cell, wanted.stage)

    def one(machine: Machine) -> dict[str, Any]:
        groups = [name for group in GROUPS if group in machine.groups for name in (group, *product.group_names(group))]
        return {
            "name": machine.name,
            "address": machine.address,
            **({"ipv6_address": machine.ipv6_address} if machine.ipv6_address else {}),
            "port": machine.port,
            "user": machine.user,
            "private_key": str(wanted.environment.private_key),
            "groups": list(dict.fromkeys(groups)),
            "joins": machine.name in new,
            "leaves": machine.name in phase.removed,
            "lost": machine.name in phase.lost,
        }

    return {
        "cell": wanted.environment.cell.id,
        "phase": phase.name,
        "machines": [one(machine) for machine in wanted.environment.machines],
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"
