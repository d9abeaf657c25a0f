"""What one run of a playbook is given: files, a folder of its own, and whom a lost connection is blamed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.machines.runner.playbook_output import play_of, task_of


@dataclass(frozen=True)
class PlaybookInputs:
    """What a playbook is run with, wherever its machines come from.

    hosts, variables: the inventory and the extra variables, as files.
    events: the file that gets the run's failures, a line of JSON each.
    control: the folder of shared SSH connections and of Ansible's own files; short, because sockets lie in it.
    facts: what the keys of kept facts begin with, so that no other run takes them for its own.
    machines: the machines' names, by address and port.
    tunnels: the file that says how they are reached through the infra cluster's API; None: at their own addresses.
    changes: whether the file of failures also gets each task that changed something.
    """

    hosts: Path
    variables: Path
    events: Path
    control: Path
    facts: str
    machines: Mapping[tuple[str, int], str] = field(default_factory=dict)
    tunnels: Path | None = None
    changes: bool = False


def _ignore(_: str) -> None:
    """Hear nothing."""


@dataclass(frozen=True)
class Listener:
    """Who is told how a playbook goes on: each play's and each task's name as it begins, and each line of output.

    A play or a task is told before its line is.
    """

    play: Callable[[str], None] = _ignore
    task: Callable[[str], None] = _ignore
    line: Callable[[str], None] = _ignore

    def hear(self, line: str) -> None:
        """Tell what a line of output says."""
        if (name := play_of(line)) is not None:
            self.play(name)
        elif (name := task_of(line)) is not None:
            self.task(name)
        self.line(line)
