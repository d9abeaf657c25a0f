"""A command's options come from the table by name, and from the dataclasses among its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import app
from harness.cli.options import Given, takes
from harness.spec.options import OPTIONS, OTHER_NAMES, RUN, SETTINGS

runner = CliRunner()
WIDE = {"COLUMNS": "250"}


@dataclass(frozen=True)
class Wanted:
    """Two options of a command of its own."""

    size: Annotated[int, typer.Option(help="How many.")] = 1
    all: Annotated[bool, typer.Option("--all", help="All of them.")] = False


@pytest.fixture
def made() -> tuple[typer.Typer, list[Any]]:
    calls: list[Any] = []
    own = typer.Typer()

    @own.command()
    @takes("provider", "max_cpus", "keep_on_failure")
    def work(given: Given, wanted: Wanted, word: Annotated[str, typer.Argument(help="A word.")]) -> None:
        """Do it."""
        calls.append((dict(given), wanted, word))

    return own, calls


def test_a_command_gets_values_and_none_for_options_not_given(made: tuple[typer.Typer, list[Any]]) -> None:
    own, calls = made
    assert runner.invoke(own, ["x"]).exit_code == 0
    assert runner.invoke(own, ["x", "--max-cpus", "1.5", "--size", "2", "--all", "--keep-on-failure"]).exit_code == 0
    assert calls == [
        ({"provider": None, "max_cpus": None, "keep_on_failure": None}, Wanted(), "x"),
        ({"provider": None, "max_cpus": 1.5, "keep_on_failure": True}, Wanted(2, all=True), "x"),
    ]


def test_help_shows_texts_types_and_choices(made: tuple[typer.Typer, list[Any]]) -> None:
    said = " ".join(runner.invoke(made[0], ["--help"], env=WIDE).output.split())
    assert "Do it." in said
    assert "--provider PROVIDER" in said
    assert OPTIONS["max_cpus"].help in said
    assert "--size" in said


def test_run_has_every_option_of_a_run_in_its_help() -> None:
    said = " ".join(runner.invoke(app, ["run", "-h"], env=WIDE).output.split())
    for name in OPTIONS.keys() & RUN - OTHER_NAMES.keys():
        assert f"{OPTIONS[name].flag} " in said
        assert OPTIONS[name].help in said
    assert "--keep-on-failure" not in said, "--keep failed is its one name"
    for title in {SETTINGS[name].panel for name in RUN if name in SETTINGS}:
        assert f"─ {title} ─" in said
