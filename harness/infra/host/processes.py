"""Brings an instance's programs up, in parallel as far as they do not wait on each other, and takes them down.

Level-triggered: what runs and is ready is left alone, what is missing is started. A pid is only ever believed together
with the start time of its process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from harness import proc
from harness.errors import InfraError
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
