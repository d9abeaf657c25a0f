"""What pods run is put together alone: the same command, without what only people and runs of cells need."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from harness.cli import app
from harness.cli.programs import MODULES, program

LOADED = """\
import sys
from harness.cli.programs import program
assert program(["operator", sys.argv[1]]) is not None
print([name for name in ("harness.cli.commands", "harness.session", "harness.report") if name in sys.modules])
"""


def command(whole: typer.Typer, name: str) -> Any:
    """Return `operator NAME` of an app, as typer's own kind of command (typer may have click in it or beside it)."""
    group: Any = typer.main.get_command(whole)
    found = group.commands["operator"].commands[name]
    assert found.params
    return found


@pytest.mark.parametrize("name", MODULES)
def test_it_is_the_same_command_as_among_all_others(name: str) -> None:
    alone = program(["operator", name, "--whatever"])
    assert alone is not None
    mine, theirs = command(alone, name), command(app, name)
    assert [(p.name, p.opts, p.required) for p in mine.params] == [(p.name, p.opts, p.required) for p in theirs.params]
    assert mine.help == theirs.help


@pytest.mark.parametrize("name", MODULES)
def test_it_loads_nothing_of_the_other_commands(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, name], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words", [[], ["operator"], ["operator", "log"], ["run"], ["--project", ".", "operator", "run"]]
)
def test_every_other_command_line_is_left_to_all_commands(words: list[str]) -> None:
    assert program(words) is None
