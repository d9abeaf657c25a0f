"""What only a guest shows: a login that comes before its key or before cloud-init's end, and a way that is cut."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness import providers
from harness.cell.life import Life
from harness.cell.site import Site
from harness.kube.client import Infra
from harness.machines.reach.ssh import control_directory, run_on
from harness.model import Cell
from harness.paths import project_dir
from harness.proc import Service
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, until
from tests.chaos.cells import Ground, cell_of

rows = pytest.mark.row
IMAGE = "debian-13"
SECONDS = {"golden_image": 300.0, "clone": 120.0, "ssh": 120.0, "cloud_init": 180.0, "unschedulable": 60.0}
# sshd answers long before cloud-init has made the user, and cloud-init ends long after that.
LATE_KEY = 'bootcmd:\n  - [sh, -c, "systemctl start --no-block ssh.socket ssh.service; sleep 6"]\n'
LATE_END = "runcmd:\n  - [sleep, '6']\n  - [touch, /run/cloud-init-was-waited-for]\n"


def machine_cell() -> Cell:
    """Return a cell of one machine with a system in it."""
    planned = cell_of(1, memory_mib=384)
    return replace(planned, machines=tuple(replace(m, image=IMAGE, disk_gib=10) for m in planned.machines))


def site_of(ground: Ground, more: str = "") -> Site:
    """Return the infra cluster for machines that boot, with more of cloud-init."""
    templates = ground.folder / "project" / "vm-templates"
    templates.mkdir(parents=True)
    for template in (project_dir() / "vm-templates").glob("*.j2"):
        text = template.read_text(encoding="utf-8")
        (templates / template.name).write_text(text + (more if template.name == "cloud-init.yml.j2" else ""), "utf-8")
    image = providers.golden_image(Settings(), IMAGE, ground.provider.mirror(), progress=lambda _: None)
    return replace(ground.site(SECONDS, image=image), project=templates.parent)


@pytest.fixture
def lives() -> Iterator[list[Life]]:
    """Return a list of lives; they are ended after the test."""
    made: list[Life] = []
    yield made
    for life in made:
        life.teardown()


def said(life: Life, command: str) -> str:
    """Run a command on a life's only machine and return what it says."""
    environment = life.provision()
    (machine,) = environment.machines
    control = control_directory(environment.run, environment.cell.id)
    done = run_on(machine, command, private_key=environment.private_key, timeout=30, control=control)
    return done.stdout.strip()


@rows("F20", "F21")
def test_a_login_that_is_refused_until_the_key_is_there_is_waited_for(ground: Ground, lives: list[Life]) -> None:
    life = ground.life(site_of(ground, LATE_KEY + LATE_END), machine_cell())
    lives.append(life)
    assert said(life, "ls /run/cloud-init-was-waited-for") == "/run/cloud-init-was-waited-for"
    assert life.attempts == 1


@rows("F22")
def test_a_way_through_the_api_that_drops_connections_is_taken_again(ground: Ground, lives: list[Life]) -> None:
    site = replace(site_of(ground), access="portforward", infra=Infra(ground.provider.kubeconfig()))
    life = ground.life(site, machine_cell())
    lives.append(life)
    with ground.befallen(life, portforward_drops={"after_bytes": 1500, "times": 3}):
        assert said(life, "hostname") == "m-0"
    assert life.attempts == 1


@rows("F17")
def test_a_guest_that_is_killed_is_the_infras_failure(ground: Ground, lives: list[Life]) -> None:
    life = ground.life(site_of(ground), machine_cell())
    lives.append(life)
    life.provision()
    assert life.machines_changed({"m-0"}) == ""
    (folder,) = (ground.provider.layout.root / "machines").iterdir()
    service = Service.load(folder / "nspawn.pid")
    assert service is not None
    os.kill(service.pid, signal.SIGKILL)  # as the kernel does
    changed = until(
        lambda: life.machines_changed({"m-0"}) or NotYet("as it was"),
        deadline=Deadline.after(60),
        what="the machine to be missed",
    )
    assert changed.startswith("machine m-0 ")
