"""Cells of which nothing was selected are no part of a run; a teardown that failed is never excused."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from harness.events import Recorder
from harness.report.results import load
from harness.session.exit_codes import exit_code
from harness.spec.models import QuarantineEntry

ENTRY = QuarantineEntry(cell="*", issue="https://example.org/1", reason="known", until=date(2100, 1, 1))


def _step(recorder: Recorder, cell: str, name: str, outcome: str = "passed", **more: object) -> None:
    recorder.write("step-start", cell=cell, attempt=1, step=[name])
    recorder.write("step-end", cell=cell, attempt=1, step=[name], outcome=outcome, seconds=1.0, **more)


def _begin(directory: Path, *cells: str) -> Recorder:
    recorder = Recorder(directory)
    recorder.write("run-start", run="abc123", tier=None, cells=list(cells), command="", cleanup="")
    return recorder


def test_a_cell_that_was_left_out_is_not_in_the_results(tmp_path: Path) -> None:
    recorder = _begin(tmp_path, "one", "two")
    recorder.write("left-out", cell="two")
    assert [cell.id for cell in load(tmp_path).cells] == ["one"]
    recorder.write("rerun-start", run="abc123", tier=None, cells=["two"], command="", cleanup="")
    _step(recorder, "two", "provision")
    assert [cell.id for cell in load(tmp_path).cells] == ["one", "two"]


def test_quarantine_excuses_a_deployment_but_not_what_stays_behind(tmp_path: Path) -> None:
    recorder = _begin(tmp_path, "one", "two")
    _step(recorder, "one", "deploy", "failed", blame="product", exit_code=1)
    _step(recorder, "one", "teardown")
    _step(recorder, "two", "teardown", "failed", blame="infra", exit_code=5)
    first, second = load(tmp_path, quarantine=[ENTRY]).cells
    assert (first.outcome, second.outcome) == ("quarantined", "failed")
    result = load(tmp_path, quarantine=[ENTRY])
    assert exit_code(result, before=0, leaked=False, pytest_status=1) == 5


def test_a_lost_cell_is_no_success(tmp_path: Path) -> None:
    recorder = _begin(tmp_path, "one")
    _step(recorder, "one", "provision")
    assert exit_code(load(tmp_path), before=0, leaked=False, pytest_status=0) == 70
