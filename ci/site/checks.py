"""Every check by its name: what it asserts, and what to do when it fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.site.constants import ANYTHING, Code, Module, name_of
from ci.site.tables import shown

ROOT = Path(__file__).resolve().parents[2]
CELLS = ROOT / "tests" / "cells"
STEPS = "life"  # a cell's steps, which no suite has
TOO_OPEN = 2  # parts of a command line that nobody knows: it helps no one
OF_PLUGIN = "`look` of the network plugin in `matrix/network_plugins.yml`"


@dataclass(frozen=True)
class Check:
    """One check, as its test has it.

    claim: what must be true, as a sentence.  look: where the cause is likely to be seen; "" if the claim says it.
    commands: what to type, with words in capital letters for what the check has found.
    """

    suite: str
    file: str
    name: str
    claim: str
    look: str
    commands: tuple[str, ...]


def checks(folder: Path = CELLS) -> Iterator[Check]:
    """Yield every check below a folder, in the order of suites, files and lines."""
    code = Code.of(folder)
    for module in code.modules:
        suite = module.path.parent.relative_to(folder).as_posix()
        for function in module.tree.body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                yield _check(code, module, function, suite)


def _check(code: Code, module: Module, function: ast.FunctionDef, suite: str) -> Check:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    arguments = {one.arg: one.value for call in calls for one in call.keywords if one.arg in ("claim", "look", "do")}
    texts = {name: code.texts(module, node) for name, node in arguments.items()}
    claim = ast.get_docstring(function) or " / ".join(texts.get("claim", []))
    commands = tuple(_commands(code, module, arguments["do"])) if "do" in arguments else ()
    look = " / ".join(texts.get("look", [])) or ("look" in arguments and OF_PLUGIN) or ""
    return Check(suite, module.path.name, function.name, claim, look, commands)


def _commands(code: Code, module: Module, node: ast.expr) -> Iterator[str]:
    """Yield command lines of what `require` is given; as its text where it is one already."""
    if not isinstance(node, ast.Call):
        yield from (text for text in code.texts(module, node) if text.count(ANYTHING) < TOO_OPEN)
        return
    tool, scripts = name_of(node.func), [text for one in node.args[1:2] for text in code.texts(module, one)]
    if tool == "kubectl":
        scripts = [text for one in node.args[1:] for text in code.texts(module, one)]
    before = {"on_machine": "", "kubectl": "kubectl --kubeconfig kubeconfig ", "etcdctl": "etcdctl "}.get(tool)
    yield from (f"{before}{script}" for script in scripts if before is not None and script != ANYTHING)


def text() -> str:
    """Return a section for each suite with an entry for each check."""
    suites: dict[str, list[Check]] = {}
    for check in checks():
        if check.suite != STEPS:
            suites.setdefault(check.suite, []).append(check)
    return "\n\n".join(f"## {suite}\n\n" + "\n\n".join(map(_entry, found)) for suite, found in suites.items())


def _entry(check: Check) -> str:
    title = check.name.removeprefix("test_").replace("_", " ")
    claim = shown(check.claim).rstrip(".")
    notes = [f"- Look at: {shown(check.look)}"] if check.look.strip(ANYTHING) else []
    notes += ["- Type: " + "; ".join(f"`{command}`" for command in check.commands)] if check.commands else []
    source = f"`{check.name}` in `tests/cells/{check.suite}/{check.file}`"
    parts = [f"### {title}", f"{claim[:1].upper()}{claim[1:]}.", "\n".join(notes), source]
    return "\n\n".join(part for part in parts if part)
