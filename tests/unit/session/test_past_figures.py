"""The figures of the runs before: of the same cell, phase and infra profile, and of earlier checks of a kept cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.events import Recorder
from harness.history.file import FileStore
from harness.history.record import Record
from harness.history.store import file_of
from harness.report.records import started_fields
from harness.session.past_figures import figures_of_run, past_figures
from harness.session.plan import RunPlan, plan_run
from harness.spec.options import RunRequest
from harness.validate.performance.figures import Figure, carried
from tests.unit.history.make import record

KEY = ("dns_rate", "w-0")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    monkeypatch.setenv("VMATRIX_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("CI_JOB_ID", raising=False)
    return plan_run(RunRequest(tier="performance"))


def write(directory: Path, plan: RunPlan, value: float, stage: str = "deploy") -> None:
    """Write the results of checks that measured one figure."""
    directory.mkdir(parents=True)
    cell, recorder = plan.cells[0], Recorder(directory)
    fields = started_fields(
        {cell.id: cell.values}, infra="embedded", provider="", checkout=directory, directory=directory
    )
    recorder.write("run-start", run=f"r-{directory.name}", cells=[cell.id], **fields)
    properties = {"figures": carried([Figure(*KEY, value, 0.5)])}
    common = {"cell": cell.id, "attempt": 1, "suite": "performance", "outcome": "passed", "seconds": 1.0}
    recorder.write("check", **common, name="test_dns", stage=stage, properties=properties)


def keep(plan: RunPlan, *records: Record) -> None:
    FileStore(file_of(plan.project.settings)).append(records)


def values(plan: RunPlan) -> list[float]:
    return [run[KEY].value for run in past_figures(plan, plan.cells[0], "deploy")]


def test_what_a_run_has_measured_so_far_is_read_from_its_results(plan: RunPlan) -> None:
    write(plan.directory, plan, 900.0)
    cell = plan.cells[0]
    assert figures_of_run(plan, cell, "deploy") == {KEY: Figure(*KEY, 900.0, 0.5)}
    assert figures_of_run(plan, cell, "upgrade") == {}


def test_only_runs_of_the_same_cell_phase_and_profile_count(plan: RunPlan) -> None:
    cell, figures = plan.cells[0].id, {"deploy": {"dns_rate w-0": (1000.0, 0.5)}}
    good = record(0, cell, figures=figures)
    elsewhere = replace(record(1, cell, figures=figures), infra="kubevirt")
    later = record(2, cell, figures={"upgrade": figures["deploy"]})
    keep(plan, good, elsewhere, later, record(3, "k1363-other-000002", figures=figures), record(4, cell))
    assert values(plan) == [1000.0]


def test_without_a_history_there_are_none(plan: RunPlan) -> None:
    assert values(plan) == []


def test_earlier_checks_of_a_kept_cell_count(plan: RunPlan, tmp_path: Path) -> None:
    again = tmp_path / "runs" / plan.run / plan.cells[0].id / "again"
    for number in (1, 2, 3):
        write(again / str(number), plan, 100.0 * number)
    keep(plan, record(0, plan.cells[0].id, figures={"deploy": {"dns_rate w-0": (1000.0, 0.5)}}))
    third = replace(plan, directory=again / "3", after=0)
    assert sorted(values(third)) == [100.0, 200.0, 1000.0]
