"""What the command says of itself and of the matrix, without any cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harness import __version__
from harness.cli import app
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
