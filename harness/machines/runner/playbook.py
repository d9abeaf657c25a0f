"""Run one playbook to its end, on an inventory."""

from __future__ import annotations

import time
from pathlib import Path

from harness.errors import ProductError
from harness.machines.access import DIES_WITH_US
from harness.machines.runner import ansible_settings
from harness.machines.runner.call import AnsibleCall
from harness.machines.runner.connections import blamed
from harness.machines.runner.given import Listener, PlaybookInputs
from harness.machines.runner.playbook_events import ended_by, touched_by
from harness.machines.runner.playbook_output import failed_hosts, failure_of, last_task, recap
from harness.proc import CommandFailed, follow, pasteable

OURS = AnsibleCall()
DEAF = Listener()


def run_playbook(
    given: PlaybookInputs,
    playbook: Path,
    *,
    timeout: float,
    log: Path,
    listener: Listener = DEAF,
    call: AnsibleCall = OURS,
    grace: float = 0.0,
) -> frozenset[str]:
    """Run a playbook to its end.

    Returns:
        the hosts on which it did anything.

    Args:
        timeout: seconds for the whole run.
        log: gets the command and everything that Ansible prints.
        listener: told how it goes on.
        call: how Ansible is called; without it vmatrix's own, with the ansible.cfg beside the playbook.
        grace: seconds that Ansible has to end by itself when time is up or this process is interrupted.

    Raises:
        ProductError: a task failed, or time is up.  InfraError: a machine, or the connection to it, was lost.
    """
    began = time.time()
    argv = call.argv(playbook, given.hosts, given.variables)
    call.link_vars(given.hosts)
    settings = ansible_settings.variables(given, call.config_for(playbook), call, playbook.parent)
    given.events.unlink(missing_ok=True)
    _note(log, f"$ ANSIBLE_CONFIG={settings['ANSIBLE_CONFIG']} {pasteable(argv)}")
    command, folder = [*DIES_WITH_US, *argv], playbook.parent
    try:
        done = follow(command, timeout=timeout, grace=grace, log=log, on_line=listener.hear, cwd=folder, env=settings)
    except CommandFailed as failure:
        last = last_task(failure.done.stdout)
        raise ProductError(
            f"{playbook.name} did not end within {timeout:.0f} s; it was at task [{last}]",
            paths=(log,),
            hint=f"look at the end of {log}",
        ) from failure
    if done.returncode != 0:
        ended = ended_by(given.events)
        hosts = ended.hosts if ended is not None else failed_hosts(done.stdout)
        raise blamed(failure_of(done, playbook, log, ended), hosts, given.machines, given.tunnels, began)
    return touched_by(given.events) or frozenset(one.host for one in recap(done.stdout))


def _note(log: Path, line: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
