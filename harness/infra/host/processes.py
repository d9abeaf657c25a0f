"""Processes of an instance: bring its programs up in parallel, take them down, find them, and say which ended.

Level-triggered: what runs and is ready is left alone, what is missing is started. A pid is only ever believed together
with the start time of its process. Processes without a record are found by the marker in their environment.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import InfraError, VmatrixError
from harness.files import write_atomically
from harness.infra.host import layout
from harness.infra.host.layout import Layout
from harness.infra.host.program import MARKER, HostCommand, HostProgram
from harness.until import Deadline, NotYet, TimedOut, until

TAIL_LINES = 15
PROBE_INTERVAL = 0.05


def bring_up(layout: Layout, programs: Sequence[HostProgram], *, deadline: Deadline) -> None:
    """Start what does not run and wait until everything is ready.

    Raises:
        InfraError: a program ended, or was not ready in time; with its last log lines and its log's path.
    """
    commands = {program.name: program.command() for program in programs}
    started: Counter[str] = Counter()
    ready: set[str] = set()

    def step() -> NotYet | None:
        waiting: list[str] = []
        for program in programs:
            if program.name in ready:
                _require_alive(layout, program)
            elif not all(name in ready for name in program.after):
                waiting.append(program.name)
            else:
                answer = _advance(layout, program, commands[program.name], started)
                if answer is None:
                    ready.add(program.name)
                else:
                    waiting.append(f"{program.name} ({answer.reason})")
        return NotYet(", ".join(waiting)) if waiting else None

    try:
        until(step, deadline=deadline, what=f"instance {layout.name} to be up", interval=PROBE_INTERVAL)
    except TimedOut as late:
        missing = [p for p in programs if p.name not in ready and all(name in ready for name in p.after)]
        raise InfraError(
            late.summary,
            hint=f"read the logs, then run: vmatrix infra down --infra-name {layout.name}",
            paths=[layout.logfile(p.name) for p in missing],
            detail="\n".join(f"--- {p.name}\n{tail(layout, p.name)}" for p in missing),
        ) from late


def _advance(layout: Layout, program: HostProgram, command: HostCommand, started: Counter[str]) -> NotYet | None:
    """Start a program unless it runs as wanted; then ask whether it is ready."""
    service = proc.Service.load(layout.pidfile(program.name))
    if service is not None and service.argv != command.argv:
        service.stop(grace=program.grace)  # left over from other binaries or another configuration
    if service is not None and service.alive():
        return program.ready()
    if started[program.name] > program.restarts:
        _require_alive(layout, program)
    for path in program.stale:
        path.unlink(missing_ok=True)
    proc.spawn(
        command.argv,
        log=layout.logfile(program.name),
        pidfile=layout.pidfile(program.name),
        cwd=layout.root,
        env={**command.env, MARKER: str(layout.root)},
    )
    started[program.name] += 1
    return NotYet("starting")


def _require_alive(layout: Layout, program: HostProgram) -> None:
    service = proc.Service.load(layout.pidfile(program.name))
    if service is None or not service.alive():
        raise InfraError(
            f"{program.name} of instance {layout.name} ended while it was coming up",
            hint=f"see the log; after fixing the cause: vmatrix infra up --infra-name {layout.name}",
            paths=[layout.logfile(program.name)],
            detail=tail(layout, program.name),
        )


def take_down(layout: Layout, names: Iterable[str], *, grace: float) -> None:
    """End programs, all at once; those that do not run (or whose pid is another process's now) are left alone."""
    services = [s for s in (proc.Service.load(layout.pidfile(name)) for name in names) if s is not None]
    if services:
        with ThreadPoolExecutor(len(services)) as pool:
            list(pool.map(lambda service: service.stop(grace=grace), services))


def runs(layout: Layout, name: str) -> bool:
    """Tell whether a program's recorded process is alive."""
    service = proc.Service.load(layout.pidfile(name))
    return service is not None and service.alive()


def recorded(layout: Layout) -> list[str]:
    """Return the names of the programs that have a pid file."""
    return sorted(path.stem for path in layout.run.glob("*.pid"))


def tail(layout: Layout, name: str) -> str:
    """Return the last lines of a program's log."""
    try:
        text = layout.logfile(name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-TAIL_LINES:]) or "(the log is empty)"


KILL_SECONDS = 20.0  # processes of this host that were killed: only the kernel holds them


@dataclass(frozen=True)
class Marked:
    """A live process that carries an instance's marker in its environment."""

    pid: int
    command: str


def marked(layout: Layout) -> list[Marked]:
    """Return the processes that carry the instance's marker; guests' processes do not, their nspawn does."""
    marker = f"{MARKER}={layout.root}".encode()
    processes: list[Marked] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                processes.append(Marked(int(folder.name), command[:160]))
        except OSError:  # it ended while we looked, or it is a kernel thread
            continue
    return [p for p in processes if p.pid != os.getpid() and p.command]


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


LINES = 5  # of a program's log, in a message about something else


@dataclass(frozen=True)
class InstanceParts:
    """The programs of an instance that were started once, as a process sees them that waits for something."""

    layout: Layout

    def dead(self) -> list[str]:
        """Return those that ended; none of an instance that is being removed."""
        record = layout.load_record(self.layout)
        if record is None or not record.usable:
            return []
        return [name for name in recorded(self.layout) if not runs(self.layout, name)]

    def trouble(self) -> str:
        """Return what to add to a time-out: which are dead, and their last lines; "" where all run."""
        return describe_ended_programs(self.layout, self.dead())

    def lost(self) -> VmatrixError | None:
        """Return why waiting is in vain: a program is dead, and whoever starts such again has given it up."""
        if not self.layout.given_up.exists():  # asked at each probe of each wait
            return None
        given_up = read_given_up(self.layout)
        dead = [name for name in self.dead() if name in given_up]
        if not dead:
            return None
        return InfraError(
            f"{', '.join(dead)} of instance {self.layout.name} ended and is not started again: {given_up[dead[0]]}",
            hint=f"see the log; after fixing the cause: vmatrix infra up --infra-name {self.layout.name}",
            paths=[self.layout.logfile(name) for name in dead],
            detail=describe_ended_programs(self.layout, dead),
        )


def describe_ended_programs(layout: Layout, names: Sequence[str]) -> str:
    """Return that programs are dead, with the last lines of each, to be read below something else."""
    if not names:
        return ""
    text = (
        f"dead: {', '.join(names)} of instance {layout.name} (vmatrix infra up --infra-name {layout.name} starts them)"
    )
    return f"{text}\n{last_words(layout, names)}"


def last_words(layout: Layout, names: Sequence[str]) -> str:
    """Return the last lines of programs' logs."""
    lines: list[str] = []
    for name in names:
        last = tail(layout, name).splitlines()[-LINES:]
        lines += [f"--- last lines of {layout.logfile(name)}", *last]
    return "\n".join(lines)


def give_up(layout: Layout, why: dict[str, str]) -> None:
    """Write down which programs nobody starts again, and why, for all processes that wait."""
    write_atomically(layout.given_up, json.dumps(why))


def read_given_up(layout: Layout) -> dict[str, str]:
    """Return which programs were given up, and why."""
    try:
        record = json.loads(layout.given_up.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(why) for name, why in record.items()} if isinstance(record, dict) else {}
