"""The result file of a program: what it may say of its failure, and the error that this makes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.cell.product.command_output import ended_with, error_line, last_lines
from harness.errors import BadInput, InfraError, InfraRetriable, ProductError, VmatrixError
from harness.proc import Completed
from harness.spec import lines
from harness.spec.base import Model, Text
from harness.spec.shape import unknown, validate

LARGEST = 1 << 20  # bytes: it is a few words, and not the program's output
HOW = "docs/command.md describes the result file"


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
