"""Run one playbook to its end, on an inventory."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path

from harness.errors import InfraRetriable, ProductError, VmatrixError
from harness.machines.reach.portforward import lost_since
from harness.machines.reach.ssh import DIES_WITH_US
from harness.machines.runner.call import AnsibleCall, Listener, PlaybookInputs, variables
from harness.machines.runner.playbook_output import ended_by, failed_hosts, failure_of, last_task, recap, touched_by
from harness.proc import CommandFailed, follow, pasteable


def blamed(
    failure: VmatrixError,
    failed: Collection[str],
    names: Mapping[tuple[str, int], str],
    tunnels: Path | None,
    began: float,
) -> VmatrixError:
    """Return a failed phase's error, or the infrastructure's if the connection to the machine that failed was lost.

    What was cut in the middle may be done again, and can then fail for no fault of the product.

    Args:
        failed: the machines that did; none where that is not known.
        names: all machines' names, by address and port.
        tunnels: the file that says how they are reached through the API; None: they are reached directly.
        began: when the phase did, in seconds since the epoch.
    """
    lost = lost_since(tunnels, began)
    machines = {where: name for where, name in names.items() if name in failed or not failed}
    cuts = [cut for cut in lost if (cut.address, cut.port) in machines]
    if not cuts:
        return failure
    first = cuts[0]
    return InfraRetriable(
        f"the connection to {machines[first.address, first.port]} was lost {len(cuts)} times during the phase: "
        f"{first.why}",
        paths=failure.paths,
        hint="this says nothing about the product; run the cell again, with --access direct if that is possible",
        detail=f"what failed then: {failure.summary}\n{failure.detail}".rstrip(),
    )


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
    settings = variables(given, call.config_for(playbook), call, playbook.parent)
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
