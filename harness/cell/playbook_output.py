"""What ansible-playbook prints, read: the task that is running, the recap, the first failure and whose fault it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InfraError, ProductError
from harness.proc import Completed

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


def task_of(line: str) -> str | None:
    """Return the name of the task that begins with a line, None when none does."""
    match = TASK.match(line)
    return match["name"] if match is not None else None


def failed_hosts(output: str) -> set[str]:
    """Return the hosts on which a task failed."""
    return {match["host"] for line in output.splitlines() if (match := FATAL.match(line)) is not None}


def recap(output: str) -> tuple[Recap, ...]:
    """Parse the play recap."""
    found = (RECAP.match(line) for line in output.splitlines())
    return tuple(Recap(m["host"], *map(int, m.group("ok", "changed", "unreachable", "failed"))) for m in found if m)


def last_task(output: str) -> str:
    """Return the name of the last task that began."""
    names = [name for line in output.splitlines() if (name := task_of(line)) is not None]
    return names[-1] if names else "none"


def failure_of(done: Completed, playbook: Path, log: Path) -> ProductError | InfraError:
    """Turn Ansible's output into one error: the first failed task, its host and its message."""
    task = "none"
    for line in done.stdout.splitlines():
        if (name := task_of(line)) is not None:
            task = name
        elif (match := FATAL.match(line)) is not None:
            return _first_failure(match, task, log, done)
    return ProductError(
        f"{playbook.name} ended with status {done.returncode} before any task failed",
        paths=(log,),
        hint="check the playbook with ansible-playbook --syntax-check",
        detail="\n".join(done.stdout.splitlines()[-15:]),
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
            hint="its console log, collected with the cell, shows whether it died",
            detail=detail,
        )
    return ProductError(
        f"task [{task}] failed on {match['host']}: {message}",
        paths=(log,),
        hint=f"{log} has the whole output",
        detail=detail,
    )
