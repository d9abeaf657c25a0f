"""What a program of an instance is: how it is started, what it waits for, and how one sees that it is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.until import NotYet

MARKER = "VMATRIX_INSTANCE"  # in the environment of every process of an instance: its folder. Never in a guest's.

Probe = Callable[[], NotYet | None]


class HostCommand(Protocol):
    """How a process is started: its argument list and the variables to add to its environment."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    @property
    def env(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class PlainCommand:
    """A HostCommand that is known beforehand."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostProgram:
    """One process of an instance.

    Attributes:
        command: asked only when the program is to be started.
        after: the programs that must be ready before this one is started.
        stale: files of an earlier process of this program, deleted before it starts.
        restarts: how often it is started again when it ends while it is coming up.
        grace: seconds it may take to end before it is killed.
    """

    name: str
    command: Callable[[], HostCommand]
    ready: Probe
    after: tuple[str, ...] = ()
    stale: tuple[Path, ...] = ()
    restarts: int = 0
    grace: float = 1.0
