"""Where a playbook's time goes: each task with its play and role, longest first.

A task lasts until the next one begins, on whatever machine it takes longest: Ansible goes on when all have ended. What
comes before the first task is Ansible's own start.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from harness.machines.runner.call import Listener

ANSIBLE_START = "ansible-playbook starts"
NO_ROLE = "tasks of the play"


@dataclass(frozen=True)
class TimedTask:
    """A task of a playbook: its play, its role ("" without one), its name, and how many seconds it took."""

    play: str
    role: str
    name: str
    seconds: float

    @property
    def title(self) -> str:
        """Return the task as Ansible calls it, with its play."""
        task = f"{self.role} : {self.name}" if self.role else self.name
        return f"{task} ({self.play})" if self.play else task


@dataclass
class TaskClock:
    """When each task of a playbook began, on the monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    tasks: list[tuple[str, float]] = field(default_factory=list)

    def on_task(self, name: str) -> None:
        """Note that a task begins."""
        self.tasks.append((name, time.monotonic()))

    def profile(self, log: str, ended: float) -> tuple[TimedTask, ...]:
        """Return the tasks in their order.

        Args:
            log: what Ansible printed, which has the plays.  ended: when it ended, on the same clock.

        Raises:
            ValueError: the log has other tasks than began.
        """
        plays = list(_plays(log))
        if [task for _, task in plays] != [task for task, _ in self.tasks]:
            raise ValueError(f"{len(self.tasks)} tasks began, and the log has {len(plays)} that may be others")
        starts = [*(at for _, at in self.tasks), ended]
        first = TimedTask("", "", ANSIBLE_START, starts[0] - self.began)
        lasted = (end - at for at, end in pairwise(starts))
        rest = (_timed(play, task, seconds) for (play, task), seconds in zip(plays, lasted, strict=True))
        return (first, *rest)


def _plays(log: str) -> Iterable[tuple[str, str]]:
    """Return each task of a log with its play."""
    found: list[tuple[str, str]] = []
    play = [""]
    listener = Listener(play=lambda name: play.__setitem__(0, name), task=lambda name: found.append((play[0], name)))
    for line in log.splitlines():
        listener.hear(line)
    return found


def _timed(play: str, task: str, seconds: float) -> TimedTask:
    role, colon, name = task.partition(" : ")
    return TimedTask(play, role, name, seconds) if colon else TimedTask(play, "", task, seconds)


def by_task(tasks: Iterable[TimedTask]) -> dict[str, float]:
    """Return the seconds of each task; one that a play has twice counts as one."""
    return _summed(tasks, lambda task: task.title)


def by_role(tasks: Iterable[TimedTask]) -> dict[str, float]:
    """Return the seconds of each role, of all plays."""
    return _summed(tasks, lambda task: task.role or task.name)


def by_play_and_role(tasks: Iterable[TimedTask]) -> dict[str, float]:
    """Return the seconds of each role in each play."""
    return _summed(tasks, lambda task: f"{task.play}: {task.role or NO_ROLE}" if task.play else task.name)


def _summed(tasks: Iterable[TimedTask], key: Callable[[TimedTask], str]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for task in tasks:
        spent[key(task)] = spent.get(key(task), 0.0) + task.seconds
    return spent


def longest_first(samples: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return samples whose parts are in one order: by their median, the longest first."""
    parts = {part for sample in samples for part in sample}
    medians = {part: statistics.median(s[part] for s in samples if part in s) for part in parts}
    order = sorted(parts, key=lambda part: (-medians[part], part))
    return [{part: sample[part] for part in order if part in sample} for sample in samples]


def as_json(samples: Sequence[Sequence[TimedTask]]) -> list[dict[str, Any]]:
    """Return the tasks of several deployments as JSON values: medians, the longest first."""
    known = {task.title: task for sample in samples for task in sample}
    medians = {
        title: statistics.median(sums[title] for sums in map(by_task, samples) if title in sums) for title in known
    }
    return [
        {"play": known[title].play, "role": known[title].role, "task": known[title].name, "seconds": round(seconds, 3)}
        for title, seconds in sorted(medians.items(), key=lambda item: (-item[1], item[0]))
    ]
