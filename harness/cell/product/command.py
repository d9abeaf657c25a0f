"""Products of kind `command`: each phase is a program; how it is run, how it ended, and what its result file says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.cell.product import command_guard
from harness.cell.product.command_inputs import environment_of, folders_of, sourced, write_files
from harness.cell.product.protocol import PhaseOutcome, PhaseRun, Tell
from harness.errors import BadInput, InfraError, InfraRetriable, ProductError, VmatrixError
from harness.files import write_atomically
from harness.interpreter import call
from harness.machines.reach.ssh import DIES_WITH_US
from harness.machines.runner.playbook import blamed
from harness.model import Environment
from harness.paths import project_dir
from harness.proc import CommandTimedOut, Completed, follow, pasteable
from harness.spec import lines
from harness.spec.base import Model, Text
from harness.spec.models import Product, Timeouts
from harness.spec.shape import unknown, validate

TASK = re.compile(r"^TASK \[(?P<name>[^\]]+)\]")
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ERROR = re.compile(r"\b(error|fatal|failed|cannot|denied|refused|timed out)\b", re.IGNORECASE)
MOST_LINES = 40
LONGEST = 400  # characters of a line in a summary


def task_in(line: str) -> str | None:
    """Return the task that a line says is under way now, None when it says nothing of that."""
    match = TASK.match(ANSI.sub("", line))
    return match["name"].strip() or None if match is not None else None


def last_lines(output: str) -> str:
    """Return the end of a program's output, without colours."""
    return "\n".join(_lines(output)[-MOST_LINES:])


def error_line(output: str) -> str:
    """Return the last line that speaks of an error, or else the last one."""
    plain_lines = [line.strip() for line in _lines(output)[-MOST_LINES:] if line.strip() and task_in(line) is None]
    speaking = [line for line in plain_lines if ERROR.search(line)]
    return (speaking or plain_lines or [""])[-1][:LONGEST]


def ended_with(status: int) -> str:
    """Say how a process ended, by its status as subprocess gives it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _lines(output: str) -> list[str]:
    return ANSI.sub("", output).splitlines()


LARGEST = 1 << 20  # bytes: it is a few words, and not the program's output


class CommandResult(Model):
    """What a program says of its phase, as JSON. Only a program that fails has somebody to blame."""

    blame: Literal["product", "user", "infra"] | None = Field(default=None, description="Who must look at the failure.")
    retry: bool = Field(default=False, description="Whether the infrastructure may do better at another attempt.")
    summary: Annotated[Text, Field(max_length=600)] | None = Field(
        default=None, description="What failed, in one line."
    )
    hint: Text | None = Field(default=None, description="What to do about it.")
    task: Text | None = Field(default=None, description="What was under way.")
    machines: tuple[Text, ...] = Field(default=(), description="The machines that failed.")
    changed: tuple[Text, ...] = Field(
        default=(), description="What it has changed, in words, one each; read when a phase is run again."
    )


def read_result(file: Path, machines: Collection[str]) -> tuple[CommandResult, list[str]]:
    """Return what a result file says, and what is wrong with it; no file says nothing.

    Args:
        machines: the names of those in the phase.
    """
    if not os.path.lexists(file):
        return CommandResult(), []
    try:
        if not file.is_file():
            return CommandResult(), [f"{file}: not a file"]
        if file.stat().st_size > LARGEST:
            return CommandResult(), [f"{file}: larger than {LARGEST} bytes"]
        text = file.read_text(encoding="utf-8")
        if not text.strip():
            return CommandResult(), [f"{file}: empty"]
        content = json.loads(text)
    except json.JSONDecodeError as error:
        return CommandResult(), [f"{file}:{error.lineno}: not JSON: {error.msg}"]
    except (OSError, ValueError, RecursionError) as error:
        return CommandResult(), [f"{file}: cannot be read: {error}"]
    document = lines.Document(file, content, _places(file, content))
    result, problems = validate(document, CommandResult)
    if result is None:
        return CommandResult(), [str(problem) for problem in problems]
    foreign = [
        document.problem(("machines", number), unknown("machine", name, machines))
        for number, name in enumerate(result.machines)
        if name not in machines
    ]
    if result.retry and result.blame != "infra":
        foreign.append(document.problem(("retry",), "only a failure of the infrastructure can be retried"))
    return (CommandResult(), [str(problem) for problem in foreign]) if foreign else (result, [])


def _places(file: Path, content: object) -> dict[lines.Location, int]:
    """Return the line of each value; nothing where YAML, whose reader tells lines, reads something else in the file."""
    document, _ = lines.read(file)
    return dict(document.lines) if document.content == content else {}


HOW = "docs/command.md describes the result file"


@dataclass(frozen=True)
class CommandEnd:
    """How a program ended.

    what: the program, in messages.  done: None when its time was up.  said: its output.  task: the last that it named.
    machines: the names of those in the phase.
    """

    what: str
    done: Completed | None
    said: str
    task: str
    log: Path
    machines: Collection[str]
    seconds: float

    @property
    def how(self) -> str:
        """Say how it ended."""
        return ended_with(self.done.returncode) if self.done is not None else f"did not end within {self.seconds:.0f} s"

    @property
    def failed(self) -> bool:
        """Tell whether it failed."""
        return self.done is None or self.done.returncode != 0


def verdict(end: CommandEnd, file: Path) -> tuple[VmatrixError | None, Collection[str]]:
    """Return a program's error, None when it succeeded, and the machines that failed as far as the program says so."""
    result, wrong = read_result(file, end.machines)
    if wrong:
        how = f"{end.how}{_where(end, result)}" if end.failed else "succeeded"
        return ProductError(
            f"{end.what} {how}, and its result file is wrong: {'; '.join(wrong)}",
            hint=HOW,
            paths=(file, end.log),
            detail=last_lines(end.said),
        ), ()
    if not end.failed:
        if result.blame is None:
            return None, ()
        return ProductError(
            f"{end.what} succeeded, but its result file blames {result.blame}: {result.summary or 'no summary'}",
            hint=f"end with another status when the phase failed, or leave `blame` out; {HOW}",
            paths=(file, end.log),
        ), ()
    return _failure(end, result), result.machines


def _failure(end: CommandEnd, result: CommandResult) -> VmatrixError:
    """Return the error of a program that failed."""
    where = _where(end, result)
    why = result.summary or error_line(end.said)
    summary = f"{end.what} {end.how}{where}{f': {why}' if why else ''}"
    error, hint = _blamed(end, result)
    return error(summary, hint=result.hint or hint, paths=(end.log,), detail=last_lines(end.said))


def _blamed(end: CommandEnd, result: CommandResult) -> tuple[type[VmatrixError], str]:
    """Return the kind of error that a failure is, and what to do about it."""
    if result.blame == "infra":
        return (InfraRetriable if result.retry else InfraError), f"{end.log} has the whole output"
    if result.blame == "user":
        return BadInput, f"{end.log} has the whole output"
    if result.blame is None and end.done is not None and end.done.returncode == -signal.SIGKILL:
        return InfraRetriable, "somebody or this host's kernel killed it; look for an OOM killer in the kernel's log"
    return ProductError, f"{end.log} has the whole output"


def _where(end: CommandEnd, result: CommandResult) -> str:
    task = result.task or end.task
    on = f" on {', '.join(result.machines)}" if result.machines else ""
    return f" in task [{task}]{on}" if task else on


GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL: Terraform, say, gives a lock back and writes its state meanwhile
GUARD_SECONDS = 5.0  # more, for the guard to see that all have ended


def run_command(
    phase_run: PhaseRun, product: Product, argv: Sequence[str], folder: Path, extra: Mapping[str, str]
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
    environment, files = phase_run.environment, phase_run.environment.files
    write_files(phase_run, product)
    variables = {**environment_of(phase_run), **extra}
    write_atomically(files.phase_environment, sourced(variables))
    result = files.result(phase_run.stage)
    result.unlink(missing_ok=True)
    named: list[str] = []

    def on_line(line: str) -> None:
        if (name := task_in(line)) is not None:
            named.append(name)
            phase_run.on_task(name)

    done, output = None, ""
    with _folders(phase_run), phase_run.log.open("a", encoding="utf-8") as log:
        log.write(f"$ {by_hand(files.phase_environment, folder, argv)}\n")
        log.flush()
        try:
            done = _follow(argv, folder, variables, phase_run, on_line)
            output = done.stdout
        except CommandTimedOut as failure:
            output = failure.done.stdout
    task = named[-1] if named else ""
    names = [machine.name for machine in environment.machines]
    end = CommandEnd(Path(argv[0]).name, done, output, task, phase_run.log, names, phase_run.timeout)
    error, machines = verdict(end, result)
    if error is not None:
        raise blamed(error, machines, environment.names, environment.tunnels, began)


def by_hand(variables: Path, folder: Path, argv: Sequence[str]) -> str:
    """Return what a person types to run a program as a phase does."""
    return f". {pasteable([variables])} && cd {pasteable([folder])} && {pasteable(argv)}"


def _follow(
    argv: Sequence[str], folder: Path, variables: Mapping[str, str], phase_run: PhaseRun, on_line: Callable[[str], None]
) -> Completed:
    guard = call(command_guard.__name__, str(GRACE_SECONDS))
    return follow(
        [*DIES_WITH_US, *guard, *argv],
        timeout=phase_run.timeout,
        grace=GRACE_SECONDS + GUARD_SECONDS,
        log=phase_run.log,
        on_line=on_line,
        cwd=folder,
        env=variables,
    )


@contextmanager
def _folders(phase_run: PhaseRun) -> Iterator[None]:
    """Make a program's own folders; the one for the phase alone goes with it."""
    folders = folders_of(phase_run)
    phase_run.log.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folders.temporary, ignore_errors=True)
    for folder in (folders.state, folders.temporary):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(folders.temporary, ignore_errors=True)


@dataclass(frozen=True)
class Commands:
    """Programs: the product's own, or any on the PATH."""

    product: Product
    project: Path

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Have everything: that the programs are there was checked when product.yml was read."""

    def entries(self) -> tuple[Path, ...]:
        """Return that nothing of the cache is used."""
        return ()

    def command(self, phase: str, machines: Environment) -> str:
        """Return the program of a phase with what it needs around it; the phase that was run last left that there."""
        return by_hand(machines.files.phase_environment, self._folder(phase), self._argv(phase))

    def run(self, phase_run: PhaseRun) -> PhaseOutcome:
        """Run the program of a phase."""
        phase = phase_run.phase.name
        extra = dict(self.product.phases[phase].environment)
        run_command(phase_run, self.product, self._argv(phase), self._folder(phase), extra)
        environment = phase_run.environment
        names = [machine.name for machine in environment.machines]
        changed = read_result(environment.files.result(phase_run.stage), names)[0].changed if phase_run.again else ()
        return PhaseOutcome(Path(self._argv(phase)[0]).name, changed=changed)

    def _argv(self, phase: str) -> list[str]:
        program, *arguments = self.product.phases[phase].command or ()
        return [str(self._directory / program) if "/" in program else program, *arguments]

    def _folder(self, phase: str) -> Path:
        return self._directory / (self.product.phases[phase].working_directory or "")

    @property
    def _directory(self) -> Path:
        project = self.project if self.project.is_absolute() else project_dir() / self.project
        return project / self.product.directory
