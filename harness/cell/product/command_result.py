"""The result file of a program: what it may say of its failure, and what is wrong with it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.spec import lines
from harness.spec.base import Model, Text
from harness.spec.shape import unknown, validate

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
