"""How a program ended, and the error that this makes, by its result file."""

from __future__ import annotations

import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from harness.cell.product.command_output import ended_with, error_line, last_lines
from harness.cell.product.command_result import CommandResult, read_result
from harness.errors import BadInput, InfraError, InfraRetriable, ProductError, VmatrixError
from harness.proc import Completed

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
