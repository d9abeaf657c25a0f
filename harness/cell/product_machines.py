"""Machines of a cell that its product makes: it is told what they are to be, and asked for their addresses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from harness.cell.machines import SSH_PORT
from harness.cell.product.protocol import MakesMachines, PhaseRun
from harness.cell.site import Site
from harness.errors import HarnessBug
from harness.kube.resources import VM, VMI
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Cell, Environment, Machine, PlannedMachine
from harness.rundir import AttemptDir
from harness.until import Deadline, NotYet, until

STAGE = "machines"


def by_product(site: Site, cell: Cell) -> bool:
    """Tell whether a cell's product makes its machines."""
    return site.product_of(cell).makes_machines


def make(site: Site, environment: Environment) -> list[Machine]:
    """Have the product make a cell's machines; wait until each runs and has an address.

    Args:
        environment: the cell's, without machines.

    Raises:
        ProductError, InfraError, HarnessBug: they do not come up; whose fault that is.
    """
    cell, limits = environment.cell, site.timeouts
    images = {name: site.image(name) for name in dict.fromkeys(machine.image for machine in cell.machines)}
    wanted = PhaseRun(
        phase=cell.phases[0],
        stage=STAGE,
        environment=environment,
        variables={},
        timeout=limits.golden_image + limits.clone + limits.machine_address,
        log=AttemptDir(environment.directory).log(STAGE),
        on_task=lambda _: None,
        outer=site.outer,
    )
    product = site.kind_of(cell)
    if not isinstance(product, MakesMachines):
        raise HarnessBug(f"the product of {cell.id} makes no machines")
    found = product.make(wanted, [told(machine, images[machine.image]) for machine in cell.machines])
    users = {name: image.user for name, image in images.items()}
    connect = limits.ssh_connect
    return [Machine(m, found[m.name], SSH_PORT, users[m.image], connect_seconds=connect) for m in cell.machines]


def destroy(site: Site, namespace: str, names: Collection[str]) -> None:
    """Destroy machines that the product has made, without a word to it, and wait until they are gone.

    Raises:
        TimedOut: some still exist.
    """
    for name in names:
        site.cluster.delete(VM, name, namespace, grace=0)

    def gone() -> bool | NotYet:
        left = [name for name in names for kind in (VM, VMI) if site.cluster.get(kind, name, namespace) is not None]
        return NotYet(f"{', '.join(left)} are there") if left else True

    what = f"the machines {', '.join(names)} of {namespace} to be gone"
    until(gone, deadline=Deadline.after(site.timeouts.teardown), what=what, interval=0.5)


def told(machine: PlannedMachine, image: GoldenImage) -> dict[str, Any]:
    """Return what templates are given of a machine that is to be made."""
    return {
        "name": machine.name,
        "set": machine.name.rpartition("-")[0],
        "cpus": machine.cpus,
        "memory_mib": machine.memory_mib,
        "disk_gib": machine.disk_gib,
        "user": image.user,
        "image": {"url": image.url, "checksum": image.checksum},
    }
