"""`vmatrix suspect`: what a run's failures may come from, and the command for the cell that tells more."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.errors import EXIT_NOTHING_SELECTED, EXIT_OK
from harness.events import Recorder
from harness.model import Cell
from harness.paths import packaged_dir, project_dir
from harness.plan.cells import cell_named
from harness.plan.tiers import tier_cells
from harness.report.results import load
from harness.spec import load_spec

Fails = Callable[[Cell], bool]


@pytest.fixture(scope="module")
def cells() -> Sequence[Cell]:
    return tier_cells(load_spec(packaged_dir() / "matrix"), "nightly", "embedded")


def suspect(runs: Path, cells: Sequence[Cell], fails: Fails, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Write a run in which a check fails in some cells; return exit code and output of the command."""
    monkeypatch.setenv("VMATRIX_PROJECT", str(project_dir()))
    run = runs / "abcdef"
    run.mkdir(parents=True)
    recorder = Recorder(run)
    values = {cell.id: dict(cell.values) for cell in cells}
    recorder.write("run-start", run="abcdef", tier="nightly", cells=list(values), values=values)
    for cell in cells:
        written(recorder, cell, "failed" if fails(cell) else "passed")
    return invoked(runs)


def written(recorder: Recorder, cell: Cell, outcome: str) -> None:
    recorder.write("step-start", cell=cell.id, attempt=1, step=["teardown"])
    recorder.write("step-end", cell=cell.id, attempt=1, step=["teardown"], outcome="passed", seconds=1.0)
    recorder.write("check", cell=cell.id, attempt=1, suite="network", name="test_pods", outcome=outcome, seconds=1.0)


def invoked(runs: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["suspect", "abcdef", "--runs", str(runs), "--infra-name", "mine", *words])
    return done.exit_code, done.output


def test_a_value_that_all_failing_cells_have_is_named(
    cells: Sequence[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = suspect(tmp_path, cells, lambda cell: cell.values["ip"] == "dual", monkeypatch)
    number = sum(cell.values["ip"] == "dual" for cell in cells)
    assert code == EXIT_OK
    assert said.startswith("ip dual (")
    assert f"{number} of {number} cells with it failed, 0 of {len(cells) - number} others" in said
    assert "no further cell would tell more" in said


@pytest.mark.parametrize("again", ["abcdef", "last", "./abcdef", "../runs/abcdef"])
def test_a_run_that_is_named_twice_counts_once(
    cells: Sequence[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    once = suspect(tmp_path / "runs", cells[:6], lambda cell: cell == cells[0], monkeypatch)
    assert invoked(tmp_path / "runs", again) == once


def test_the_next_cell_is_run_on_the_same_infra_cluster(
    cells: Sequence[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = suspect(tmp_path, cells[:6], lambda cell: cell == cells[0], monkeypatch)
    (line,) = (line for line in said.splitlines() if line.startswith("next: "))
    vmatrix, run, name, *options = shlex.split(line.removeprefix("next: "))
    assert (code, vmatrix, run) == (EXIT_OK, "vmatrix", "run")
    assert name not in {cell.id for cell in cells[:6]}
    assert options == ["--into", "abcdef", "--infra-name", "mine"]


def test_further_cells_are_run_into_the_run_until_they_tell_no_more(
    cells: Sequence[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspect(tmp_path, cells[:6], lambda cell: cell == cells[0], monkeypatch)
    spec, recorder = load_spec(packaged_dir() / "matrix"), Recorder(tmp_path / "abcdef")
    calls: list[list[str]] = []

    def attend(argv: Sequence[str], **_: object) -> int:
        calls.append([*argv][4:])
        cell = cell_named(spec, argv[5])
        assert cell is not None
        recorder.write("rerun-start", run="abcdef", cells=[cell.id], values={cell.id: dict(cell.values)})
        written(recorder, cell, "passed")
        return EXIT_OK

    monkeypatch.setattr("harness.proc.attend", attend)
    code, said = invoked(tmp_path, "--run", "--most", "3")
    assert code == EXIT_OK
    assert 1 <= len(calls) <= 3
    assert {(call[0], *call[2:4]) for call in calls} == {("run", "--into", "abcdef")}
    assert {"--runs", str(tmp_path), "--infra-name", "mine"} == {*calls[0][4:]}
    result = load(tmp_path / "abcdef")
    assert result.further == tuple(call[1] for call in calls)
    assert result.no_further
    summary = (tmp_path / "abcdef" / "summary.md").read_text(encoding="utf-8")
    assert f"- further cells: `{calls[0][1]}`" in summary
    assert f"- no further cell: {result.no_further[0]}" in summary
    assert f"no further cell: {result.no_further[0]}" in said


def test_without_a_failure_there_is_no_suspect(
    cells: Sequence[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = suspect(tmp_path, cells[:6], lambda _: False, monkeypatch)
    assert (code, said) == (EXIT_NOTHING_SELECTED, "no failure that a passed cell could be compared with\n")
