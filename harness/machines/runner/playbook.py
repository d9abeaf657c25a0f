"""Run one phase of the product: its playbook, on the cell's inventory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.errors import ProductError
from harness.machines.access import DIES_WITH_US
from harness.machines.runner import ansible_settings
from harness.machines.runner.call import AnsibleCall
from harness.machines.runner.connections import blamed
from harness.machines.runner.playbook_events import ended_by, touched_by
from harness.machines.runner.playbook_output import failed_hosts, failure_of, last_task, recap, task_of
from harness.model import Environment
from harness.proc import CommandFailed, pasteable, run

OURS = AnsibleCall()


def run_playbook(
    environment: Environment,
    playbook: Path,
    *,
    timeout: float,
    log: Path,
    on_task: Callable[[str], None] = lambda _: None,
    call: AnsibleCall = OURS,
) -> frozenset[str]:
    """Run a playbook to its end, with the inventory and the variables in the environment's directory.

    Returns:
        the hosts on which it did anything.

    Args:
        timeout: seconds for the whole run.
        log: gets the command and everything that Ansible prints.
        on_task: told each task's name as it begins.
        call: how Ansible is called; without it vmatrix's own, with the ansible.cfg beside the playbook.

    Raises:
        ProductError: a task failed, or time is up.  InfraError: a machine, or the connection to it, was lost.
    """
    began = time.time()
    argv = call.argv(playbook, environment.files.hosts, environment.files.variables)
    call.link_vars(environment.files.hosts)
    events = environment.files.failures(log.stem)
    settings = ansible_settings.variables(environment, call.config_for(playbook), events, call)
    events.unlink(missing_ok=True)
    _note(log, f"$ ANSIBLE_CONFIG={settings['ANSIBLE_CONFIG']} {pasteable(argv)}")

    def on_line(line: str) -> None:
        if (name := task_of(line)) is not None:
            on_task(name)

    command, folder = [*DIES_WITH_US, *argv], playbook.parent
    try:
        done = run(command, timeout=timeout, env=settings, log=log, on_line=on_line, check=False, cwd=folder)
    except CommandFailed as failure:
        last = last_task(failure.done.stdout)
        raise ProductError(
            f"{playbook.name} did not end within {timeout:.0f} s; it was at task [{last}]",
            paths=(log,),
            hint=f"look at the end of {log}",
        ) from failure
    if done.returncode != 0:
        ended = ended_by(events)
        hosts = ended.hosts if ended is not None else failed_hosts(done.stdout)
        raise blamed(failure_of(done, playbook, log, ended), hosts, environment, began)
    return touched_by(events) or frozenset(one.host for one in recap(done.stdout))


def _note(log: Path, line: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
