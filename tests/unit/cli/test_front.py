"""What the command says of itself and of the matrix, without any cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness import __version__
from harness.cli import app
from harness.cli.front import PROGRAMS, program
from harness.spec.settings import Settings

runner = CliRunner()


def commands(command: object, *names: str) -> list[list[str]]:
    """Return the words of every command and of every group of commands."""
    inner: dict[str, object] = getattr(command, "commands", {})
    return [list(names), *(words for name in inner for words in commands(inner[name], *names, name))]


@pytest.mark.parametrize("words", commands(typer.main.get_command(app)), ids=" ".join)
def test_help_says_what_a_command_does(words: list[str]) -> None:
    result = runner.invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage: vmatrix" in result.output.replace("root", "vmatrix")
    described = [line for line in result.output.splitlines()[2:] if line.strip()]
    assert described
    assert not described[0].lstrip().startswith("╭"), "no sentence says what it is for"


def test_every_part_has_its_command() -> None:
    known = {" ".join(words) for words in commands(typer.main.get_command(app))}
    assert known >= {
        *("run", "list", "explain", "status", "login", "reap", "doctor", "config", "version"),
        *("infra up", "infra down", "infra status", "artifacts build", "artifacts serve", "image build"),
    }


def test_config_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vmatrix.yml").write_text("infra_name: desk\nexpiry_hours: 2\n", encoding="utf-8")
    result = runner.invoke(app, ["config", "--json"], env={"VMATRIX_EXPIRY_HOURS": "3"})
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told.keys() == Settings.model_fields.keys()
    assert told["infra_name"] == {"value": "desk", "from": "vmatrix.yml:1"}
    assert told["expiry_hours"] == {"value": 3.0, "from": "VMATRIX_EXPIRY_HOURS"}
    assert told["provider"] == {"value": "embedded", "from": "default"}


def test_version() -> None:
    assert runner.invoke(app, ["version"]).stdout.strip() == __version__


LOADED = """\
import sys
from harness.cli.front import program
assert program(["operator", sys.argv[1]]) is not None
print([name for name in ("harness.cli.run", "harness.session", "harness.report") if name in sys.modules])
"""


def command(whole: typer.Typer, name: str) -> Any:
    """Return `operator NAME` of an app, as typer's own kind of command (typer may have click in it or beside it)."""
    group: Any = typer.main.get_command(whole)
    found = group.commands["operator"].commands[name]
    assert found.params
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_the_same_command_as_among_all_others(name: str) -> None:
    alone = program(["operator", name, "--whatever"])
    assert alone is not None
    mine, theirs = command(alone, name), command(app, name)
    assert [(p.name, p.opts, p.required) for p in mine.params] == [(p.name, p.opts, p.required) for p in theirs.params]
    assert mine.help == theirs.help


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_loads_nothing_of_the_other_commands(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, name], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words", [[], ["operator"], ["operator", "log"], ["run"], ["--project", ".", "operator", "run"]]
)
def test_every_other_command_line_is_left_to_all_commands(words: list[str]) -> None:
    assert program(words) is None
