"""Run one phase of the product: its program, in an environment that says what there is to do."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.cell.product import command_guard
from harness.cell.product.command_end import CommandEnd, verdict
from harness.cell.product.command_environment import environment_of, folders_of, sourced
from harness.cell.product.command_files import write_files
from harness.cell.product.command_output import task_in
from harness.cell.product.protocol import PhaseRun
from harness.files import write_atomically
from harness.interpreter import call
from harness.machines.access import DIES_WITH_US
from harness.machines.runner.connections import blamed
from harness.proc import CommandTimedOut, Completed, follow, pasteable
from harness.spec.models import Product

GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL: Terraform, say, gives a lock back and writes its state meanwhile
GUARD_SECONDS = 5.0  # more, for the guard to see that all have ended


def run_command(
    wanted: PhaseRun, product: Product, argv: Sequence[str], folder: Path, extra: Mapping[str, str]
) -> None:
    """Run a program to its end, with everything that it started.

    Args:
        argv: the program and its arguments.  folder: its working directory.
        extra: environment variables that the product asks for.

    Raises:
        ProductError, InfraError, BadInput: it failed or its time was up; its result file says whose fault it is.
        InfraError: the connection to a machine that failed was lost meanwhile.
    """
    began = time.time()
    environment, files = wanted.environment, wanted.environment.files
    write_files(wanted, product)
    variables = {**environment_of(wanted), **extra}
    write_atomically(files.phase_environment, sourced(variables))
    result = files.result(wanted.stage)
    result.unlink(missing_ok=True)
    named: list[str] = []

    def on_line(line: str) -> None:
        if (name := task_in(line)) is not None:
            named.append(name)
            wanted.on_task(name)

    done, said = None, ""
    with _folders(wanted), wanted.log.open("a", encoding="utf-8") as log:
        log.write(f"$ {by_hand(files.phase_environment, folder, argv)}\n")
        log.flush()
        try:
            done = _follow(argv, folder, variables, wanted, on_line)
            said = done.stdout
        except CommandTimedOut as failure:
            said = failure.done.stdout
    task = named[-1] if named else ""
    names = [machine.name for machine in environment.machines]
    end = CommandEnd(Path(argv[0]).name, done, said, task, wanted.log, names, wanted.timeout)
    error, machines = verdict(end, result)
    if error is not None:
        raise blamed(error, machines, environment.names, environment.tunnels, began)


def by_hand(variables: Path, folder: Path, argv: Sequence[str]) -> str:
    """Return what a person types to run a program as a phase does."""
    return f". {pasteable([variables])} && cd {pasteable([folder])} && {pasteable(argv)}"


def _follow(
    argv: Sequence[str], folder: Path, variables: Mapping[str, str], wanted: PhaseRun, on_line: Callable[[str], None]
) -> Completed:
    guard = call(command_guard.__name__, str(GRACE_SECONDS))
    return follow(
        [*DIES_WITH_US, *guard, *argv],
        timeout=wanted.timeout,
        grace=GRACE_SECONDS + GUARD_SECONDS,
        log=wanted.log,
        on_line=on_line,
        cwd=folder,
        env=variables,
    )


@contextmanager
def _folders(wanted: PhaseRun) -> Iterator[None]:
    """Make a program's own folders; the one for the phase alone goes with it."""
    folders = folders_of(wanted)
    wanted.log.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folders.temporary, ignore_errors=True)
    for folder in (folders.state, folders.temporary):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(folders.temporary, ignore_errors=True)
