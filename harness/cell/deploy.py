"""Run one phase of the product: its playbook, on the cell's inventory; say which task failed and whose fault it was."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.cell.access import DIES_WITH_US, control_directory
from harness.errors import InfraError, InfraRetriable, ProductError
from harness.kube.tunnels import lost_since
from harness.model import Environment
from harness.proc import CommandFailed, Completed, pasteable, run

TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(?P<name>.*?)\]")
FATAL = re.compile(r"^(?:fatal|failed): \[(?P<host>[^\]]+?)\](?:: (?P<kind>\w+)!)?.*?=> (?P<rest>.*)$")
ERROR = re.compile(r"\bERROR\b|^error:", re.IGNORECASE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
MESSAGE_LENGTH = 600
DETAIL_LINES = 40
RECAP = re.compile(
    r"^(?P<host>\S+)\s+: ok=(?P<ok>\d+)\s+changed=(?P<changed>\d+)"
    r"\s+unreachable=(?P<unreachable>\d+)\s+failed=(?P<failed>\d+)"
)


@dataclass(frozen=True)
class Recap:
    """What ansible-playbook's last lines say of one host."""

    host: str
    ok: int
    changed: int
    unreachable: int
    failed: int


def playbook_argv(playbook: Path, hosts: Path, extra: Path) -> list[str]:
    """Return the command that a person could run by hand."""
    return [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(hosts), "-e", f"@{extra}", str(playbook)]


def run_playbook(
    environment: Environment,
    playbook: Path,
    *,
    hosts: Path,
    extra: Path,
    timeout: float,
    log: Path,
    on_task: Callable[[str], None] = lambda _: None,
) -> tuple[Recap, ...]:
    """Run a playbook to its end.

    Args:
        timeout: seconds for the whole run.
        log: gets the command and everything that Ansible prints.
        on_task: told each task's name as it begins.

    Raises:
        ProductError: a task failed, or time is up.  InfraError: a machine could not be reached, or the way to the one
            that failed was cut meanwhile.
    """
    began = time.time()
    argv = playbook_argv(playbook, hosts, extra)
    control = control_directory(environment.run, environment.cell.id)
    control.mkdir(mode=0o700, exist_ok=True)
    settings = {
        "ANSIBLE_CONFIG": str(playbook.parent / "ansible.cfg"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control),
        "ANSIBLE_LOCAL_TEMP": str(control / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ ANSIBLE_CONFIG={settings['ANSIBLE_CONFIG']} {pasteable(argv)}\n")

    def on_line(line: str) -> None:
        if (match := TASK.match(line)) is not None:
            on_task(match["name"])

    try:
        done = run(
            [*DIES_WITH_US, *argv],
            timeout=timeout,
            env=settings,
            log=log,
            on_line=on_line,
            check=False,
            cwd=playbook.parent,
        )
    except CommandFailed as failure:
        last = last_task(failure.done.stdout)
        raise ProductError(
            f"{playbook.name} did not end within {timeout:.0f} s; it was at task [{last}]",
            paths=(log,),
            hint=f"look at the end of {log}",
        ) from failure
    if done.returncode != 0:
        raise blamed(failure_of(done, playbook, log), done, environment, began)
    return recap(done.stdout)


def recap(output: str) -> tuple[Recap, ...]:
    """Parse the play recap."""
    found = (RECAP.match(line) for line in output.splitlines())
    return tuple(
        Recap(m["host"], int(m["ok"]), int(m["changed"]), int(m["unreachable"]), int(m["failed"])) for m in found if m
    )


def last_task(output: str) -> str:
    """Return the name of the last task that began."""
    names = [match["name"] for line in output.splitlines() if (match := TASK.match(line)) is not None]
    return names[-1] if names else "none"


def failure_of(done: Completed, playbook: Path, log: Path) -> ProductError | InfraError:
    """Turn Ansible's output into one error: the first failed task, its host and its message."""
    task = "none"
    for line in done.stdout.splitlines():
        if (match := TASK.match(line)) is not None:
            task = match["name"]
        elif (match := FATAL.match(line)) is not None:
            return _first_failure(match, task, log, done)
    return ProductError(
        f"{playbook.name} ended with status {done.returncode} before any task failed",
        paths=(log,),
        hint="is it valid? run ansible-playbook --syntax-check",
        detail="\n".join(done.stdout.splitlines()[-15:]),
    )


def blamed(
    failure: ProductError | InfraError, done: Completed, environment: Environment, began: float
) -> ProductError | InfraError:
    """Return a failed playbook's error, or the infrastructure's if the way to the machine that failed was cut.

    Ansible connects again and runs the task once more; a task that was cut in the middle can then fail for no fault of
    the product.

    Args:
        began: when the playbook did, in seconds since the epoch.
    """
    lost = lost_since(environment.tunnels, began)
    failed = {match["host"] for line in done.stdout.splitlines() if (match := FATAL.match(line)) is not None}
    machines = {(m.address, m.port): m.name for m in environment.machines if m.name in failed or not failed}
    cuts = [cut for cut in lost if (cut.address, cut.port) in machines]
    if not cuts:
        return failure
    first = cuts[0]
    return InfraRetriable(
        f"the way to {machines[first.address, first.port]} was cut {len(cuts)} times during the playbook: {first.why}",
        paths=failure.paths,
        hint="the verdict says nothing about the product; run the cell again, with --access direct where that can be",
        detail=f"Ansible's own words: {failure.summary}\n{failure.detail}".rstrip(),
    )


def _explained(result: str) -> tuple[str, str]:
    """Return a failed task's message and its details: of a command, its errors and all of its output."""
    try:
        parsed = json.loads(result)
    except ValueError:
        return result[:MESSAGE_LENGTH], ""
    message = str(parsed.get("msg") or parsed.get("reason") or "no message")
    output = [ANSI.sub("", str(line)) for key in ("stdout_lines", "stderr_lines") for line in parsed.get(key) or []]
    errors = [line.strip() for line in output if ERROR.search(line)]
    said = "; ".join([message, *errors]) if errors else message
    return said[:MESSAGE_LENGTH], "\n".join(output[-DETAIL_LINES:])


def _first_failure(match: re.Match[str], task: str, log: Path, done: Completed) -> ProductError | InfraError:
    message, detail = _explained(match["rest"])
    if match["kind"] == "UNREACHABLE":
        return InfraError(
            f"{match['host']} could not be reached in task [{task}]: {message}",
            paths=(log,),
            hint="its console log, collected with the cell, says whether it died",
            detail=detail,
        )
    return ProductError(
        f"task [{task}] failed on {match['host']}: {message}",
        paths=(log,),
        hint=f"the whole output is in {log}",
        detail=detail,
    )
