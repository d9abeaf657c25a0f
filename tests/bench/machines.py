"""How long one machine takes from its objects' creation to a login, through the product's own functions."""

from __future__ import annotations

import time
from dataclasses import replace

from harness.cell import manifests
from harness.cell.existing import CellSelector
from harness.cell.golden import ensure_golden, wait_for_volume
from harness.cell.machines import create_machine, wait_for_address
from harness.cell.manifests import CellPlan
from harness.cell.place import Place, cell_labels, namespace_name
from harness.cell.site import Site
from harness.cell.teardown import reap
from harness.kube.resources import DATA_VOLUME, NAMESPACE, RESOURCE_QUOTA
from harness.machines.keys import make_key_pair
from harness.machines.kubevirt.manifests import GoldenImage, machine
from harness.machines.reach.ssh import control_directory, wait_for_cloud_init, wait_for_login
from harness.model import PlannedMachine
from harness.until import Deadline
from tests.bench.figures import Ledger
from tests.bench.ground import Ground, open_site

LOGIN_TARGET = 6.0
EXPIRY_SECONDS = 3600.0
LEAST_RUNS = 3  # a machine is quick to make and its time scatters


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Make one machine after the other, each in a namespace of its own."""
    site = open_site(ground)
    image = site.image(ground.cell.machines[0].image)
    ensure_golden(site, image)
    clones: list[float] = []
    samples: list[dict[str, float]] = []
    try:
        for _ in range(max(runs, LEAST_RUNS)):
            clone, sample = _one(ground, site, ground.cell.machines[0], image)
            clones.append(clone)
            samples.append(sample)
    finally:
        ledger.add("clone of a disk", "s", clones, note="DataVolume created to Succeeded, looked at every 0.2 s")
        logins = [s["address"] + s["login"] for s in samples]
        ledger.add(
            "machine, created to SSH login", "s", logins, target=LOGIN_TARGET, note="with its clone, one machine"
        )
        ends = [sum(s.values()) for s in samples]
        ledger.add("- to cloud-init's end", "s", ends, note="the same; what a cell waits for")
        ledger.share("one machine", samples)


def _one(ground: Ground, site: Site, planned: PlannedMachine, image: GoldenImage) -> tuple[float, dict[str, float]]:
    run_id = ground.run_id()
    directory = ground.directory / run_id
    directory.mkdir(parents=True)
    key = directory / "id_ed25519"
    expires = time.time() + EXPIRY_SECONDS
    plan = CellPlan(
        namespace=namespace_name(run_id, ground.cell.id, 1),
        labels=cell_labels(run=run_id, cell=ground.cell.id, attempt=1, expires_at=expires),
        expires_at=expires,
        public_key=make_key_pair(key, comment="bench"),
        dns_domain=str(ground.cell.vars["cluster_dns_domain"]),
        storage_class=site.storage_class,
    )
    site.cluster.ensure(NAMESPACE, manifests.namespace(plan, directory=site.templates))
    site.cluster.ensure(RESOURCE_QUOTA, manifests.quota(plan, (planned,), directory=site.templates))
    try:
        clone = _clone(site, plan, planned, image)
        control = control_directory(run_id, ground.cell.id)
        control.mkdir(mode=0o700, exist_ok=True)
        began = time.monotonic()
        create_machine(site, plan, planned, image)
        machine = wait_for_address(site, Place(plan.namespace), planned, image.user)
        addressed = time.monotonic()
        deadline, seconds = Deadline.after(site.timeouts.ssh), site.timeouts.ssh_login
        wait_for_login(machine, key, deadline=deadline, seconds=seconds, control=control)
        logged_in = time.monotonic()
        deadline, seconds = Deadline.after(site.timeouts.cloud_init), site.timeouts.cloud_init_answer
        wait_for_cloud_init(machine, key, deadline=deadline, seconds=seconds, control=control)
        ended = time.monotonic()
    finally:
        reap(site.cluster, CellSelector(run=run_id), seconds=site.timeouts.teardown)
    ground.say(f"machine: login after {logged_in - began:.1f} s")
    return clone, {"address": addressed - began, "login": logged_in - addressed, "cloud-init": ended - logged_in}


def _clone(site: Site, plan: CellPlan, planned: PlannedMachine, image: GoldenImage) -> float:
    """Clone a disk that no machine uses."""
    spare = replace(planned, name="spare")
    disk = next(o for o in machine(plan, spare, image, directory=site.templates) if o["kind"] == "DataVolume")
    began = time.monotonic()
    site.cluster.ensure(DATA_VOLUME, disk)
    wait_for_volume(
        site.cluster,
        plan.namespace,
        spare.name,
        deadline=Deadline.after(site.timeouts.clone),
        stall_seconds=site.timeouts.clone,
    )
    return time.monotonic() - began
