"""How a point is carried out: who is ended, and how."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.infra.host import processes
from harness.infra.host.layout import Layout
from harness.infra.host.processes import marked
from harness.proc import Service
from tests.embedded.run.runs import Run
from tests.kill.points import PARTS, KillPoint

BLOCK = 2**20


def deliver(point: KillPoint, run: Run, layout: Layout) -> None:
    """End what a point names, now."""
    if point.how == "disk full":
        fill(run.directory)
    elif point.how == "memory":
        used = int(Path(f"/proc/{run.process.pid}/statm").read_text(encoding="utf-8").split()[0])
        size = used * resource.getpagesize()
        resource.prlimit(run.process.pid, resource.RLIMIT_AS, (size, size))
    else:
        for pid in list(victims(point, run, layout)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[f"SIG{point.how}"])


def victims(point: KillPoint, run: Run, layout: Layout) -> Iterator[int]:
    """Yield the processes that a point ends."""
    if point.what in PARTS:
        service = Service.load(layout.pidfile(point.what))
        assert service is not None, f"{point.what} was never started"
        yield service.pid
    elif point.what == "worker":
        yield from (pid for pid in below(run.process.pid) if "execnet" in _words(pid))
    else:
        yield run.process.pid
        if point.what in {"group", "power"}:
            yield from below(run.process.pid)
        if point.what == "power":
            yield from (one.pid for one in marked(layout))
            yield from (s.pid for name in processes.recorded(layout) if (s := Service.load(layout.pidfile(name))))


def below(pid: int) -> list[int]:
    """Return all processes that a process has started, and those that these have."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text(encoding="utf-8").split()):
                found += [child, *below(child)]
    return found


def fill(folder: Path) -> None:
    """Take all space of the file system that a folder is on."""
    with suppress(OSError), (folder / "full").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(BLOCK))


def _words(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    return ""
