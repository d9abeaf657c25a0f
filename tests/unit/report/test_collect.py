"""Runs into the history: by themselves at a desk, by the last job in a pipeline, and what was cut off later by hand."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.history.file import FileStore
from harness.history.record import to_line
from harness.report.collect import collect, keep
from harness.schedule.durations import estimate
from harness.spec.models import QuarantineEntry
from harness.spec.settings import Settings
from tests.unit.history.make import record
from tests.unit.report.written import ISSUE, Written
from tests.unit.schedule.matrix import cell as planned

CELL = "k1363-fresh"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """A run in a directory of runs, outside of any job."""
    for name in [name for name in os.environ if name.startswith("CI_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "runs" / "r00001"
    folder.mkdir(parents=True)
    return Written(folder)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings whose history is a file."""
    return Settings(runs=tmp_path / "runs")


def test_a_run_at_a_desk_is_in_the_history_when_it_ends(run: Written, settings: Settings) -> None:
    run.start(CELL).passes(CELL).end(0)
    keep(run.directory, settings, quarantine=())
    (kept,) = FileStore(settings.runs / "history.jsonl").load().records
    assert (kept.cell, kept.outcome) == (CELL, "passed")


def test_a_rerun_adds_only_what_it_ran(run: Written, settings: Settings) -> None:
    run.start(CELL, "other").passes("other").step(CELL, "deploy", outcome="failed", blame="product").gone(CELL).end(1)
    keep(run.directory, settings, quarantine=())
    run.start(CELL, rerun=True).passes(CELL).end(0)
    keep(run.directory, settings, quarantine=(), cells=[planned(CELL)])
    for path in (settings.runs / "history.jsonl", run.directory / "history.jsonl"):
        found = FileStore(path).load()
        assert sorted((r.cell, r.last_attempt, r.outcome) for r in found.records) == [
            (CELL, 1, "failed"),
            (CELL, 2, "passed"),
            ("other", 1, "passed"),
        ]
        assert found.duplicates == 0


def test_a_kept_run_says_what_its_cell_was_estimated_at(run: Written, settings: Settings) -> None:
    cell = planned(CELL, 2048)
    run.start(CELL).passes(CELL).end(0)
    keep(run.directory, settings, quarantine=(), cells=[cell])
    (kept,) = collect([run.directory], quarantine=()).records
    assert (kept.estimate, kept.parallel) == (round(estimate(cell), 1), 1)


def test_a_desk_of_a_project_with_a_package_learns_from_its_own_runs(run: Written, settings: Settings) -> None:
    run.start(CELL).passes(CELL).end(0)
    keep(run.directory, settings.model_copy(update={"report_history": "package"}), quarantine=())
    assert [r.cell for r in FileStore(settings.runs / "history.jsonl").load().records] == [CELL]


def test_in_a_job_the_records_stay_beside_the_results(
    run: Written, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_JOB_ID", "7")
    run.start(CELL).passes(CELL).end(0)
    keep(run.directory, settings, quarantine=())
    assert not (settings.runs / "history.jsonl").exists()
    assert [r.cell for r in collect([settings.runs], quarantine=()).records] == [CELL]


def test_a_run_that_was_killed_can_be_added(run: Written, settings: Settings) -> None:
    run.start(CELL).step(CELL, "provision").begin(CELL, "deploy")
    found = collect([settings.runs], quarantine=())
    assert [r.outcome for r in found.records] == ["unfinished"]


def test_what_the_run_wrote_knows_its_own_quarantine(run: Written, settings: Settings) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    entry = QuarantineEntry(cell="*", issue=ISSUE, reason="x", until=tomorrow)
    run.start(CELL).step(CELL, "deploy").check(CELL, "test_a", "failed", blame="product").gone(CELL).end(0)
    keep(run.directory, settings, quarantine=[entry])
    (found,) = collect([run.directory], quarantine=()).records
    assert found.outcome == "quarantined"


def test_files_and_directories_can_be_mixed(run: Written, settings: Settings, tmp_path: Path) -> None:
    run.start(CELL).passes(CELL).end(0)
    file = tmp_path / "more.jsonl"
    file.write_bytes(to_line(record()) + b"torn")
    found = collect([file, run.directory, settings.runs], quarantine=())
    assert {r.cell for r in found.records} == {CELL, record().cell}
    assert [(s.source, s.line) for s in found.skipped] == [(str(file), 2)]


def test_what_is_not_there_is_refused_unless_nothing_ran(tmp_path: Path) -> None:
    assert collect([tmp_path / "runs"], quarantine=()).records == ()
    with pytest.raises(BadInput, match="does not exist"):
        collect([tmp_path / "history.jsonl"], quarantine=())
    with pytest.raises(BadInput, match="does not exist"):
        collect([tmp_path, tmp_path / "runs"], quarantine=())
