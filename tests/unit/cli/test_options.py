"""A command's options come from the table by name, and from the dataclasses among its parameters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from harness.cli import app, options
from harness.cli.options import SharedOptions, takes
from harness.paths import PROJECT, project_dir
from harness.rundir import RunDir
from harness.spec.options import OPTIONS, OTHER_NAMES, RUN, SETTINGS
from tests.unit.programs import VMATRIX, run_loaded

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
    def work(shared: SharedOptions, wanted: Wanted, word: Annotated[str, typer.Argument(help="A word.")]) -> None:
        """Do it."""
        calls.append((dict(shared), wanted, word))

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


NOTHING = SimpleNamespace(params={})


def parameters(command: Any = None, *words: str) -> Iterator[tuple[str, Any]]:
    """Yield every option and argument of every command, with its place."""
    command = command if command is not None else typer.main.get_command(app)
    for one in command.get_params(command.make_context("vmatrix", [], resilient_parsing=True)):
        yield f"{' '.join(words)} {one.name}", one
    for name, inner in getattr(command, "commands", {}).items():
        yield from parameters(inner, *words, name)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VMATRIX_RUNS", str(tmp_path / "runs"))
    for run, cell, machines in (("aaaaaa", "one", ("cp-0", "w-0")), ("abbbbb", "two", ("cp-0",))):
        made = RunDir.of(tmp_path / "runs", run)
        hosts = made.attempt(cell).hosts
        hosts.parent.mkdir(parents=True)
        hosts.write_text(yaml.safe_dump({"all": {"hosts": {name: {} for name in machines}}}), encoding="utf-8")
        made.results.touch()
    return tmp_path / "runs"


def test_tiers_and_cells_of_the_project() -> None:
    assert options.tiers(NOTHING, "sm") == ["smoke"]
    (cell,) = options.planned(NOTHING, "k1363-d13-c2-fl-nf-c1w1-fresh-m-1")
    assert cell.startswith("k1363-d13-c2-fl-nf-c1w1-fresh-m-1")
    assert "topology=cp1-w1" in options.planned(NOTHING, "topology=")


@pytest.mark.usefixtures("runs")
def test_runs_their_cells_and_the_machines_of_these() -> None:
    assert options.runs(NOTHING, "") == ["aaaaaa", "abbbbb"]
    assert options.COMPLETED["RUN"](NOTHING, "") == ["aaaaaa", "abbbbb", "last"]
    assert options.runs(NOTHING, "ab") == ["abbbbb"]
    assert options.made(NOTHING, "") == ["one", "two"]
    assert options.machines(SimpleNamespace(params={"cell": "one"}), "") == ["cp-0", "w-0"]
    assert options.machines(SimpleNamespace(params={"cell": "none"}), "") == []


@pytest.mark.parametrize("word", ["TIER", "RUN", "CELL", "MACHINE", "PROVIDER", "KEEP", "ACCESS"])
def test_every_place_for_such_a_word_is_completed(word: str) -> None:
    places = {place: param for place, param in parameters() if param.metavar == word}
    assert places
    assert [place for place, param in places.items() if param._custom_shell_complete is None] == []


def test_no_word_for_a_value_is_made_of_types_or_choices() -> None:
    assert [(place, one.metavar) for place, one in parameters() if set("<>|") & set(one.metavar or "")] == []


def test_files_that_cannot_be_read_complete_nothing(runs: Path) -> None:
    RunDir.of(runs, "aaaaaa").attempt("one").hosts.write_text("all: [", encoding="utf-8")
    assert options.machines(SimpleNamespace(params={"cell": "one"}), "") == []


def test_outside_of_a_project_nothing_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROJECT, raising=False)
    monkeypatch.chdir(tmp_path)
    assert options.tiers(NOTHING, "") == []


@pytest.mark.parametrize(
    ("shell", "env"),
    [
        ("bash", {"COMP_WORDS": "vmatrix run --tier sm", "COMP_CWORD": "3"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "vmatrix run --tier sm"}),
    ],
)
def test_shells_are_answered(shell: str, env: dict[str, str]) -> None:
    asked = {**os.environ, **env, "_VMATRIX_COMPLETE": f"complete_{shell}", PROJECT: str(project_dir())}
    done = run_loaded([VMATRIX], cwd=Path.cwd(), env=asked)
    assert "smoke" in done.stdout, done
