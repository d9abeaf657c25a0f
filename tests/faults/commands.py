"""What failed checks say to type: collected from the checks, and typed on a cell, where each must be a command."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.validate.commands import etcdctl, kubectl, on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch
from tests.faults.cells import Patient

CELLS = Path(__file__).parents[1] / "cells"
LITERAL = "x"  # in the place of what a check fills in
Maker = Callable[..., Callable[[Sequence[Mismatch]], str]]
MAKERS: dict[str, Maker] = {"on_machine": on_machine, "kubectl": kubectl, "etcdctl": etcdctl}
SECONDS = 60.0
UNKNOWN = (126, 127)  # statuses of a shell that knows no such command
COMPLAINTS = (
    "command not found",
    ": not found",
    "syntax error",
    "unterminated quoted",
    "unknown command",
    "No entries",
)


Constants = dict[str, str]


def text_of(node: ast.expr, constants: Constants) -> str:
    """Return a text as a check writes it, with LITERAL for what it fills in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part, constants) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return text_of(node.value, constants)
    return constants.get(node.id, LITERAL) if isinstance(node, ast.Name) else LITERAL


def constants_of(module: ast.Module) -> Constants:
    """Return the texts that a module has by name."""
    given = [(one.targets[0], one.value) for one in module.body if isinstance(one, ast.Assign)]
    return {name.id: text_of(value, {}) for name, value in given if isinstance(name, ast.Name)}


def printed() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield every command of every check: where, how it is made, and its texts."""
    for file in sorted(CELLS.rglob("*.py")):
        module = ast.parse(file.read_text(encoding="utf-8"))
        constants = constants_of(module)
        for node in ast.walk(module):
            given = [one.value for one in node.keywords if one.arg == "do"] if isinstance(node, ast.Call) else []
            for value in given:
                where = f"{file.relative_to(CELLS)}:{value.lineno}"
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                    yield where, value.func.id, tuple(text_of(one, constants) for one in value.args[1:])
                elif isinstance(value, ast.Constant | ast.JoinedStr | ast.Name):
                    yield where, "text", (text_of(value, constants),)


def line_of(maker: str, texts: tuple[str, ...], expected: ExpectedGuest, found: Sequence[Mismatch]) -> str:
    """Return the line that is printed."""
    return texts[0] if maker == "text" else MAKERS[maker](expected, *texts)(found)


def type_all(patient: Patient, tell: Callable[[str], None]) -> int:
    """Type every command in the cell's folder; return how many are no commands there."""
    expected, wrong = patient.inspection().expected, 0
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    directory = patient.guest.environment.directory
    variables = {**os.environ, "PATH": path, "VMATRIX_RUNS": str(directory.parents[1])}
    lines = {line_of(maker, texts, expected, ()): where for where, maker, texts in printed()}
    for line, where in lines.items():
        if LITERAL in line.split() or not line.startswith(("vmatrix ", "kubectl ")) or "--serve" in line:
            continue  # what a check fills in as it runs, and what serves until it is ended
        done = subprocess.run(
            ["/usr/bin/timeout", f"{SECONDS:.0f}", "/bin/sh", "-c", line],
            cwd=directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said = done.stdout + done.stderr
        if done.returncode in UNKNOWN or any(words in said for words in COMPLAINTS):
            wrong += 1
            tell(f"{where}: {line}\n  status {done.returncode}: {said.strip()[-300:]}")
    tell(f"{len(lines)} commands typed, {wrong} are none")
    return wrong
