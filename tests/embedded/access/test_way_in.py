"""A machine that is reached through the API alone: commands, playbooks, a cut on the way, and what comes after it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import providers
from harness.cell.diagnose import collect
from harness.cell.life import Life
from harness.cell.product.playbooks import inputs_of
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import Blame, InfraRetriable
from harness.events import Recorder
from harness.kube import Cluster
from harness.kube.client import Infra
from harness.machines import inventory
from harness.machines.reach.portforward import Tunnels
from harness.machines.reach.ssh import close_connections, control_directory, run_on, ssh_options
from harness.machines.runner.call import Listener
from harness.machines.runner.playbook import run_playbook
from harness.model import Cell, Environment, Phase, PlannedMachine
from harness.paths import project_dir
from harness.proc import Completed, Service, run
from harness.providers.embedded import EmbeddedProvider
from harness.spec import load_spec
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, until
from tests.embedded.run.conftest import processes

MACHINE = "m-0"
CELL = "wayin"
TIMEOUT_SCALE = 3.0
PLAYBOOK_SECONDS = 180.0
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Begin
      ansible.builtin.command: "true"
    - name: Once
      ansible.builtin.shell: mkdir /tmp/{{ mark }} && sleep {{ sleep }}
"""
AFTER_SECONDS = 2.0  # of the task, which sleeps longer
ENDING_SECONDS = 20.0  # on a busy host


@pytest.fixture(scope="module")
def life(infra: EmbeddedProvider, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Return the life of a cell of one machine, reached through the API; taken away at the end."""
    folder = tmp_path_factory.mktemp("runs")
    spec = load_spec(project_dir() / "matrix")
    site = Site(
        cluster=cluster,
        spec=spec,
        timeouts=spec.timeouts.scaled(TIMEOUT_SCALE),
        mirror=infra.mirror(),
        guest_vars={},
        image=lambda name: providers.golden_image(Settings(), name, infra.mirror(), progress=lambda _: None),
        storage_class=None,
        project=project_dir(),
        expiry_hours=1.0,
        access="portforward",
        infra=Infra(infra.kubeconfig()),
    )
    machine = PlannedMachine(MACHINE, ("node",), 1, 512, 10, "debian-13")
    cell = Cell(CELL, {"topology": "t"}, "fresh", (Phase("deploy", machines=(MACHINE,)),), (machine,), {})
    made = Life(site, Attempt("wayin1", cell, 1, folder / "wayin1" / CELL), Steps(Recorder(folder), CELL, 1))
    try:
        made.provision()
        yield made
    finally:
        made.teardown()
    assert processes(str(folder)) == []


@pytest.fixture
def environment(life: Life) -> Environment:
    """Return the cell's machine."""
    return life.provision()


@pytest.fixture
def play(environment: Environment, tmp_path: Path) -> Callable[..., None]:
    """Return what runs a playbook of two tasks, of which the second cannot be done twice."""
    playbook = tmp_path / "once.yml"
    playbook.write_text(PLAYBOOK, encoding="utf-8")
    shutil.copy(project_dir() / "playbooks" / "ansible.cfg", tmp_path)

    def run_it(mark: str, *, sleep: int = 0, during: Callable[[], None] = lambda: None) -> None:
        inventory.write(environment, {"mark": mark, "sleep": sleep})
        timers: list[threading.Timer] = []

        def on_task(name: str) -> None:
            if name == "Once":
                timers.append(threading.Timer(AFTER_SECONDS, during))
                timers[-1].start()

        log = tmp_path / "deploy.log"
        try:
            given, listener = inputs_of(environment, log), Listener(task=on_task)
            run_playbook(given, playbook, timeout=PLAYBOOK_SECONDS, log=log, listener=listener)
        finally:
            for timer in timers:
                timer.join()

    return run_it


def said(environment: Environment, command: str) -> Completed:
    (machine,) = environment.machines
    control = control_directory(environment.run, environment.cell.id)
    return run_on(machine, command, private_key=environment.private_key, timeout=60.0, control=control)


def kubevirt(infra: EmbeddedProvider) -> Service:
    found = Service.load(infra.layout.pidfile("kubevirt"))
    assert found is not None
    return found


def test_commands_and_files_go_through_the_api(environment: Environment, cluster: Cluster, life: Life) -> None:
    (machine,) = environment.machines
    assert machine.tunnels == environment.directory / "tunnels.json"
    done = said(environment, "cat; hostname")
    written = collect(cluster, life.attempt.place, environment.files, environment, seconds=60.0)

    assert (done.returncode, done.stdout.strip()) == (0, MACHINE)
    assert {"journal.log", "system.log"} <= {path.name for path in written}
    assert processes(f"{environment.tunnels} {machine.address} 22") != []  # one stays, for whoever comes next


def test_a_playbook_goes_through_the_api(play: Callable[..., None], environment: Environment) -> None:
    play("first")
    assert said(environment, "test -d /tmp/first").returncode == 0


def test_a_cut_in_the_middle_of_a_playbook_is_the_infras_fault(
    play: Callable[..., None], environment: Environment, infra: EmbeddedProvider
) -> None:
    def cut() -> None:
        os.kill(kubevirt(infra).pid, signal.SIGUSR1)

    with pytest.raises(InfraRetriable) as failed:
        play("second", sleep=8, during=cut)

    assert failed.value.blame == Blame.INFRA
    assert f"the connection to {MACHINE} was lost" in failed.value.summary
    assert "task [Once] failed" in failed.value.detail  # it was run again, which it cannot be
    assert said(environment, "test -d /tmp/second").returncode == 0  # a new connection is a new tunnel
    play("third")


def test_nothing_stays_broken_when_kubevirt_itself_is_killed(
    play: Callable[..., None], environment: Environment, infra: EmbeddedProvider
) -> None:
    def kill() -> None:
        os.kill(kubevirt(infra).pid, signal.SIGKILL)

    with pytest.raises(InfraRetriable, match=f"the connection to {MACHINE} was lost"):
        play("fourth", sleep=8, during=kill)
    unreachable = said(environment, "true")
    infra.up()

    assert unreachable.returncode == 255
    assert said(environment, "test -d /tmp/fourth").returncode == 0
    play("fifth")


def test_connections_end_when_they_are_closed(environment: Environment) -> None:
    (machine,) = environment.machines
    assert said(environment, "true").returncode == 0
    close_connections(control_directory(environment.run, environment.cell.id))

    def ended() -> bool | NotYet:
        left = processes(f"{environment.tunnels} {machine.address}")
        return NotYet("; ".join(left)) if left else True

    until(ended, deadline=Deadline.after(ENDING_SECONDS), what="no tunnel's process is left")
    assert Tunnels.load(environment.directory / "tunnels.json").instances == {machine.address: MACHINE}


def test_people_go_the_same_way(environment: Environment, infra: EmbeddedProvider) -> None:
    (machine,) = environment.machines
    vmatrix = Path(sys.executable).with_name("vmatrix")
    there = ["--infra-name", infra.layout.name]
    runs = {"VMATRIX_RUNS": str(environment.directory.parents[1])}
    login = run([vmatrix, "login", CELL, MACHINE, *there, "--", "hostname"], timeout=60, env=runs)
    through = f"ProxyCommand={shlex.join([str(vmatrix), 'proxy', CELL, MACHINE, '22', *there])}"
    options = [*ssh_options(environment.private_key), "-o", through]
    ssh = run(["ssh", *options, f"{machine.user}@anything", "hostname"], timeout=60)
    strange = run([vmatrix, "proxy", CELL, "m-7", *there], timeout=60, check=False)
    no_guest = run([vmatrix, "kubectl", CELL, *there, "--", "get", "nodes"], timeout=60, check=False, env=runs)

    assert (login.stdout.strip(), ssh.stdout.strip()) == (MACHINE, MACHINE)
    assert (strange.returncode, "has no running machine 'm-7'" in strange.stderr) == (2, True)
    assert (no_guest.returncode, "the guest's kubeconfig" in no_guest.stderr) == (2, True)
