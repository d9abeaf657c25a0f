"""What our callback plugin wrote during a playbook: the failure that ended it, if it came to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
