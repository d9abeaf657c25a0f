"""What a shell completes: the project's tiers, cells and values, the runs, cells and machines of this directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import yaml

from harness.cli import app, complete
from harness.paths import PROJECT, project_dir
from harness.rundir import RunDir

NOTHING = SimpleNamespace(params={})
SECONDS = 300  # against hanging


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
    assert complete.tiers(NOTHING, "sm") == ["smoke"]
    (cell,) = complete.planned(NOTHING, "k1363-d13-c2-fl-nf-c1w1-fresh-m-1")
    assert cell.startswith("k1363-d13-c2-fl-nf-c1w1-fresh-m-1")
    assert "topology=cp1-w1" in complete.planned(NOTHING, "topology=")


@pytest.mark.usefixtures("runs")
def test_runs_their_cells_and_the_machines_of_these() -> None:
    assert complete.runs(NOTHING, "") == ["aaaaaa", "abbbbb", "last"]
    assert complete.runs(NOTHING, "ab") == ["abbbbb"]
    assert complete.made(NOTHING, "") == ["one", "two"]
    assert complete.machines(SimpleNamespace(params={"cell": "one"}), "") == ["cp-0", "w-0"]
    assert complete.machines(SimpleNamespace(params={"cell": "none"}), "") == []


@pytest.mark.parametrize("word", ["TIER", "RUN", "CELL", "MACHINE", "PROVIDER", "KEEP", "ACCESS"])
def test_every_place_for_such_a_word_is_completed(word: str) -> None:
    places = {place: param for place, param in parameters() if param.metavar == word}
    assert places
    assert [place for place, param in places.items() if param._custom_shell_complete is None] == []


def test_no_word_for_a_value_is_made_of_types_or_choices() -> None:
    assert [(place, one.metavar) for place, one in parameters() if set("<>|") & set(one.metavar or "")] == []


def test_files_that_cannot_be_read_complete_nothing(runs: Path) -> None:
    RunDir.of(runs, "aaaaaa").attempt("one").hosts.write_text("all: [", encoding="utf-8")
    assert complete.machines(SimpleNamespace(params={"cell": "one"}), "") == []


def test_outside_of_a_project_nothing_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROJECT, raising=False)
    monkeypatch.chdir(tmp_path)
    assert complete.tiers(NOTHING, "") == []


@pytest.mark.parametrize(
    ("shell", "env"),
    [
        ("bash", {"COMP_WORDS": "vmatrix run --tier sm", "COMP_CWORD": "3"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "vmatrix run --tier sm"}),
    ],
)
def test_shells_are_answered(shell: str, env: dict[str, str]) -> None:
    program = Path(sys.executable).parent / "vmatrix"
    asked = {**os.environ, **env, "_VMATRIX_COMPLETE": f"complete_{shell}", PROJECT: str(project_dir())}
    done = subprocess.run([program], env=asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "smoke" in done.stdout, done
