"""Every place of the code that says what to do: whose fault it is, what is said, and the hint."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.site.constants import ANYTHING, Code, Module, name_of
from harness import errors

HINTS = ("hint", "remedy")  # what arguments and fields with a hint are called


@dataclass(frozen=True)
class Advice:
    """One place that says what to do.

    blame: "" if that is decided elsewhere.  summaries: what is said.  source: the hint as it stands in the code.
    passed_on: whether it is that of another error, which has a place itself.
    """

    path: Path
    line: int
    error: str
    blame: str
    exit_code: int | None
    summaries: tuple[str, ...]
    hints: tuple[str, ...]
    source: str
    passed_on: bool


def advice(folder: Path) -> Iterator[Advice]:
    """Yield all places below a folder, in the order of files and lines."""
    code = Code.of(folder)
    known, fields = dict(_errors(code)), _fields(code)
    for module in code.modules:
        for call, hint in _places(module, fields):
            error = name_of(call.func)
            blame, exit_code = known.get(
                error, ("infra", errors.EXIT_INFRA) if error == "failing_as_infra" else ("", None)
            )
            said = code.texts(module, call.args[0]) if call.args and call.args[0] is not hint else []
            hints = tuple(one for one in code.texts(module, hint) if one.strip(f" {ANYTHING};,:."))
            source = ast.unparse(hint)
            passed_on = any(f".{name}" in source for name in HINTS)
            yield Advice(module.path, call.lineno, error, blame, exit_code, tuple(said), hints, source, passed_on)


def _places(module: Module, fields: dict[str, int]) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield the calls that are given a hint, as an argument of that name or as the field of a class."""
    calls = sorted((one for one in module.nodes if isinstance(one, ast.Call)), key=lambda one: one.lineno)
    for call in calls:
        yield from ((call, one.value) for one in call.keywords if one.arg in HINTS)
        at = fields.get(name_of(call.func))
        if at is not None and len(call.args) > at:
            yield call, call.args[at]


def _fields(code: Code) -> dict[str, int]:
    """Return where among its fields a class has a hint."""
    classes = (node for module in code.modules for node in module.nodes if isinstance(node, ast.ClassDef))
    found = {}
    for one in classes:
        fields = (part.target for part in one.body if isinstance(part, ast.AnnAssign))
        names = [field.id for field in fields if isinstance(field, ast.Name)]
        for name in set(HINTS) & set(names):
            found[one.name] = names.index(name)
    return found


def _errors(code: Code) -> Iterator[tuple[str, tuple[str, int | None]]]:
    """Yield each error with its blame and exit code, as it has or inherits them."""
    bases: dict[str, str] = {}
    for module in code.modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and node.bases:
                bases[node.name] = name_of(node.bases[0])
    for name in bases:
        base = name
        while base in bases and not hasattr(errors, base):
            base = bases[base]
        found = getattr(errors, base, None)
        if isinstance(found, type) and issubclass(found, errors.VmatrixError):
            yield name, (found.blame.value, found.exit_code)
