"""Output of a playbook: what our callback plugin wrote, and what ansible-playbook prints where that does not tell."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import InfraError, InfraRetriable, ProductError
from harness.proc import Completed

MOST_OTHERS = 5  # other failures that are told with the first
FAILURES = ("failed", "unreachable")  # events


@dataclass(frozen=True)
class TaskFailure:
    """A task that failed on a host, or a host that could not be reached, for good.

    tolerant: its play lets a share of its hosts fail.  item: of the task's loop; None without one.
    """

    task: str
    handler: bool
    host: str
    unreachable: bool
    tolerant: bool
    item: str | None
    result: Mapping[str, Any]
    play: str = ""

    @property
    def what(self) -> str:
        """Return the task as a person calls it."""
        item = f" (item {self.item})" if self.item is not None else ""
        return f"{'handler' if self.handler else 'task'} [{self.task}]{item}"


@dataclass(frozen=True)
class Ended:
    """How a run ended: the failure to blame, and the others that were not pardoned, in their order."""

    first: TaskFailure
    others: Sequence[TaskFailure]

    @property
    def hosts(self) -> set[str]:
        """Return the hosts that failed."""
        return {failure.host for failure in (self.first, *self.others)}


def ended_by(path: Path) -> Ended | None:
    """Return what ended a playbook; None where that is not written down: Ansible was killed, or failed before a task.

    A failure that was ignored or rescued ended nothing. Of the others the first counts, whatever failed after it. Only
    where a play tolerates a share of failed hosts and was stopped, what counts is the task that was one too many.
    """
    events = _read(path)
    end = next((event for event in events if event["event"] == "end"), None)
    if end is None:
        return None
    guilty = {*end["failed"], *end["unreachable"]}  # Ansible's own judgement
    found: list[TaskFailure] = []
    stopped_at = 0
    for event in events:
        if event["event"] == "stopped":
            stopped_at = len(found)
        elif event["event"] in FAILURES and not event["pardon"] and event["host"] in guilty:
            found.append(_failure(event))
    if not found:
        return None
    first = found[0]
    if stopped_at and found[stopped_at - 1].tolerant:
        last = found[stopped_at - 1]
        first = next(one for one in found if (one.task, one.tolerant) == (last.task, True))
    return Ended(first, [one for one in found if one is not first])


def touched_by(path: Path) -> frozenset[str] | None:
    """Return the hosts on which a playbook did anything; None where that is not written down."""
    return next((frozenset(event["hosts"]) for event in _read(path) if event["event"] == "end"), None)


def changed_by(path: Path) -> tuple[str, ...] | None:
    """Return each task that changed a host, in words; None where the plugin did not write how the run ended."""
    events = _read(path)
    if not any(event["event"] == "end" for event in events):
        return None
    return tuple(_change(event) for event in events if event["event"] == "changed")


def _change(event: Mapping[str, Any]) -> str:
    play = f" of play [{event['play']}]" if event.get("play") else ""
    return f"{'handler' if event['handler'] else 'task'} [{event['task']}]{play} on {event['host']}"


def _failure(event: Mapping[str, Any]) -> TaskFailure:
    same = {key: event[key] for key in ("task", "handler", "host", "tolerant", "item", "result")}
    return TaskFailure(**same, unreachable=event["event"] == "unreachable", play=event.get("play", ""))


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the events; none when a line was cut, as it is when Ansible is killed."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []


PLAY = re.compile(r"^PLAY \[(?P<name>.*?)\]")
TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(?P<name>.*?)\]")
FATAL = re.compile(r"^(?:fatal|failed): \[(?P<host>[^\]]+?)\](?:: (?P<kind>\w+)!)?.*?=> (?P<rest>.*)$")
ERROR = re.compile(r"\bERROR\b|^error:", re.IGNORECASE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
REFUSED = re.compile(r"^(?:\[ERROR\]: |ERROR! )(?P<why>.+)")  # a playbook that did not begin
IGNORED = "...ignoring"
DEAD_WORKER = "A worker was found in a dead state"  # Ansible's words where one of its processes was killed
MESSAGE_LENGTH = 600
CUT = " ..."
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


def play_of(line: str) -> str | None:
    """Return the name of the play that begins with a line, None when none does."""
    match = PLAY.match(line)
    return match["name"] if match is not None else None


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


def refusal_in(lines: Sequence[str]) -> str:
    """Return why Ansible did not begin, in its own words; "" where it does not say."""
    return next((match["why"] for line in lines if (match := REFUSED.match(line)) is not None), "")


def last_task(output: str) -> str:
    """Return the name of the last task that began."""
    names = [name for line in output.splitlines() if (name := task_of(line)) is not None]
    return names[-1] if names else "none"


def failure_of(done: Completed, playbook: Path, log: Path, ended: Ended | None = None) -> ProductError | InfraError:
    """Return a failed playbook's error: the task that ended it, its host and its message.

    Args:
        ended: what Ansible's events say; without them its output is read, in which a rescued failure looks like others.
    """
    if ended is not None:
        first, others = ended.first, ended.others
        message, detail = _explained(first.result)
        more = [f"also: {one.what} on {one.host}: {_explained(one.result)[0]}" for one in others[:MOST_OTHERS]]
        return _error(first, message, "\n".join([*detail.splitlines(), *more]), log)
    if done.returncode < 0 or DEAD_WORKER in done.stdout:
        by = f" by {signal.Signals(-done.returncode).name}" if done.returncode < 0 else ", one process of it,"
        return InfraRetriable(
            f"ansible-playbook was killed{by} in task [{last_task(done.stdout)}]",
            paths=(log,),
            hint="somebody or this host's kernel killed it; look for an OOM killer in the kernel's log",
        )
    return _from_output(done, playbook, log)


def _from_output(done: Completed, playbook: Path, log: Path) -> ProductError | InfraError:
    """Return the error of the first failure in Ansible's output that was not ignored."""
    task, lines = "none", done.stdout.splitlines()
    for number, line in enumerate(lines):
        if (name := task_of(line)) is not None:
            task = name
        elif (match := FATAL.match(line)) is not None and lines[number + 1 : number + 2] != [IGNORED]:
            failure = TaskFailure(task, False, match["host"], match["kind"] == "UNREACHABLE", False, None, {})
            return _error(failure, *_explained_text(match["rest"]), log)
    why = refusal_in(lines)
    return ProductError(
        f"{playbook.name} ended with status {done.returncode} before any task failed{f': {why}' if why else ''}",
        paths=(log,),
        hint="check the playbook with ansible-playbook --syntax-check",
        detail="\n".join(lines[-15:]),
    )


def _explained_text(result: str) -> tuple[str, str]:
    try:
        return _explained(json.loads(result))
    except ValueError:
        return _clipped(result), ""


def _explained(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return a failed task's message and its details: of a command, its errors and all of its output."""
    message = str(result.get("msg") or result.get("reason") or result.get("censored") or "no message")
    output = [ANSI.sub("", str(line)) for key in ("stdout_lines", "stderr_lines") for line in result.get(key) or []]
    errors = dict.fromkeys(line.strip() for line in output if ERROR.search(line))
    said = "; ".join([message, *(line for line in errors if line not in message)])
    return _clipped(said), "\n".join(output[-DETAIL_LINES:])


def _clipped(text: str) -> str:
    """Return a message of a bounded length, which is cut between two words: half a URL leads somewhere else."""
    if len(text) <= MESSAGE_LENGTH:
        return text
    head = text[: MESSAGE_LENGTH - len(CUT)]
    return (head.rsplit(None, 1)[0] if re.search(r"\s", head) else head) + CUT


def _error(failure: TaskFailure, message: str, detail: str, log: Path) -> ProductError | InfraError:
    if failure.unreachable:
        return InfraError(
            f"{failure.host} could not be reached in {failure.what}: {message}",
            paths=(log,),
            hint="its console log, collected with the cell, shows whether it died",
            detail=detail,
        )
    return ProductError(
        f"{failure.what} failed on {failure.host}: {message}",
        paths=(log,),
        hint=f"{log} has the whole output",
        detail=detail,
    )
