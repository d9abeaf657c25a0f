"""The processes of an instance, found by the marker in their environment and not by any record."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.infra.host.layout import Layout
from harness.infra.host.program import MARKER
from harness.until import Deadline, NotYet, until

KILL_SECONDS = 20.0  # processes of this host that were killed: only the kernel holds them


@dataclass(frozen=True)
class Marked:
    """A live process that carries an instance's marker in its environment."""

    pid: int
    command: str


def marked(layout: Layout) -> list[Marked]:
    """Return the processes that carry the instance's marker; guests' processes do not, their nspawn does."""
    marker = f"{MARKER}={layout.root}".encode()
    found: list[Marked] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(Marked(int(folder.name), command[:160]))
        except OSError:  # it ended while we looked, or it is a kernel thread
            continue
    return [p for p in found if p.pid != os.getpid() and p.command]


def kill_marked(layout: Layout, *, containing: str = "") -> None:
    """Kill the processes that carry the instance's marker (and that text in their command line) until none is left.

    Raises:
        TimedOut: some survive SIGKILL.
    """

    def none_left() -> NotYet | None:
        alive = [p for p in marked(layout) if containing in p.command]
        for process in alive:
            _kill(process.pid)
        return NotYet(f"processes {', '.join(str(p.pid) for p in alive)} are alive") if alive else None

    until(none_left, deadline=Deadline.after(KILL_SECONDS), what="the instance's processes to end", interval=0.05)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    proc.reap(pid)
