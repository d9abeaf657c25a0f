"""A cell's witness, put together of what its life knows."""

from __future__ import annotations

from harness.cell.life import Life
from harness.cell.network import mirror_of
from harness.machines.access import DIES_WITH_US, control_directory, ssh_command, ssh_options
from harness.model import Environment
from harness.validate.phases.witness import Witness


def witness_of(life: Life) -> Witness:
    """Return who looks on while the cell lives; the life tells it of each phase."""
    witness = Witness(
        cell=life.cell,
        registry=mirror_of(life.site.mirror, life.cell.vars).images,
        timeouts=life.site.timeouts,
        leaves=life.site.product_of(life.cell).cluster,
        ssh_options=inspection_options,
        ssh_command=lambda environment, machine: [*DIES_WITH_US, *ssh_command(machine, environment.private_key)],
        step=life.steps.step,
    )
    life.watch = witness.watch
    return witness


def inspection_options(environment: Environment) -> list[str]:
    """Return how checks connect to a cell's machines: over shared connections, whose directory is there then."""
    control = control_directory(environment.run, environment.cell.id)
    control.mkdir(mode=0o700, exist_ok=True)
    seconds = max(machine.connect_seconds for machine in environment.machines)
    return ssh_options(environment.private_key, control, environment.tunnels, connect_seconds=seconds)
