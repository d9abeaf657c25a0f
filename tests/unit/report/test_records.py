"""From a run's results to its records: what they keep, where it ran, and what they leave out."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness import proc
from harness.errors import BadInput
from harness.events import Recorder
from harness.history.file import FileStore
from harness.history.lines import forget, once
from harness.history.record import MachineRecord, Record, RunOrigin, from_line, to_line
from harness.report import records, summary
from harness.report.records import collect, keep, records_of
from harness.report.results import Culprit, load
from harness.schedule.durations import estimate
from harness.spec.models import QuarantineEntry
from harness.spec.settings import Settings
from tests.unit.history.make import checks_in, record
from tests.unit.report.written import ISSUE, Written
from tests.unit.schedule.matrix import cell as planned

CELL = "k1363-fresh"


def only(run: Written) -> Record:
    """Return the one record of a run, as it comes out of its line."""
    (found,) = records_of(run.directory)
    return from_line(to_line(found))


def test_every_check_of_a_run_can_be_told(run: Written) -> None:
    run.start(CELL).step(CELL, "provision", seconds=11.0).step(CELL, "deploy", seconds=40.0)
    run.check(CELL, "test_ready").check(CELL, "test_dns", "failed", blame="product", detail="E  no answer")
    run.check(CELL, "test_metrics", "not-run", detail="not run: no metrics here")
    run.step(CELL, "upgrade", seconds=50.0).check(CELL, "test_ready", stage="upgrade")
    run.gone(CELL).end(1)
    (cell,) = load(run.directory).cells
    assert checks_in(only(run)) == [
        (c.title, c.stage, c.attempt, c.outcome, c.detail if c.outcome != "passed" else "") for c in cell.checks
    ]


def test_a_record_says_what_a_cell_came_to(run: Written) -> None:
    run.start(CELL).fails(CELL, "provision", blame="infra", summary="no room")
    run.start(CELL, rerun=True).passes(CELL).end(0)
    found = only(run)
    assert (found.outcome, found.blame, found.tier, found.run) == ("passed", "", "pr", "r00001")
    assert [(a.number, a.outcome, a.blame) for a in found.attempts] == [(1, "failed", "infra"), (2, "passed", "")]
    assert {s.name: s.seconds for s in found.steps if s.attempt == 2}["deploy"] == 40.0
    assert found.counts == {"passed": 1}


def test_a_record_says_since_which_commit_its_cell_fails(run: Written) -> None:
    run.start(CELL).fails(CELL, "deploy", blame="product", summary="no").end(1)
    before = only(run)
    run.seconds += 60
    values = ("ip", "dual"), ("runtime", "crio")
    culprit = Culprit(values, ("deploy",), "abc", "abc Route", "A <a@b>", "2026-11-20", ("@net",))
    run.event("culprit", cell=CELL, **culprit.event)
    found = only(run)
    expected = {"values": "ip dual with runtime crio", "commit": "abc", "title": "abc Route", "owners": "@net"}
    assert expected.items() <= found.culprit.items()
    assert found.id == before.id
    assert once([before, found]) == (found,)  # what was found out later replaces it in the history
    (told,) = load(run.directory).culprits
    assert told == culprit
    assert told.said == "since abc Route (A <a@b>, 2026-11-20); owners: @net"


def test_a_record_says_which_revision_of_a_product_was_tested(run: Written) -> None:
    run.start(CELL).passes(CELL)
    assert only(run).where.product == ""
    said = "kubespray, https://example.org/kubespray.git v2.30.0 (commit 0123456789ab)"
    Recorder(run.directory).write("product", name="kubespray", said=said)
    run.end(0)
    assert only(run).where.product == said
    assert f"- product: {said}" in summary.render(load(run.directory))


def test_a_failed_step_keeps_message_and_hint(run: Written) -> None:
    run.start(CELL).step(CELL, "deploy", outcome="failed", blame="product", summary="task failed", hint="read the log",
                         detail="fatal: [cp-0]").gone(CELL)  # fmt: skip
    (step,) = [s for s in only(run).steps if s.outcome == "failed"]
    assert step.message == "task failed\nfatal: [cp-0]\nhint: read the log"


def test_a_failure_in_quarantine_has_its_issue(run: Written) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(1)
    entry = QuarantineEntry(cell="*", check="nodes: test_dns", issue=ISSUE, reason="x", until=tomorrow)
    run.start(CELL).step(CELL, "deploy").check(CELL, "test_dns", "failed", blame="product", detail="no").gone(CELL)
    (found,) = records_of(run.directory, quarantine=[entry])
    assert (found.outcome, found.blame, found.notes[0].quarantine) == ("quarantined", "", ISSUE)
    assert [row.results for row in found.checks.rows] == ["q"]


def test_the_same_results_are_the_same_record(run: Written) -> None:
    run.start(CELL).passes(CELL).end(0)
    assert records_of(run.directory) == records_of(run.directory)


def test_a_rerun_is_another_record(run: Written) -> None:
    run.start(CELL).step(CELL, "deploy", outcome="failed", blame="product").gone(CELL).end(1)
    (first,) = records_of(run.directory)
    run.start(CELL, rerun=True).passes(CELL).end(0)
    (second,) = records_of(run.directory)
    assert first.id != second.id


def test_a_cell_that_never_began_has_a_record_too(run: Written) -> None:
    run.start(CELL, "other").passes(CELL)
    assert [r.outcome for r in records_of(run.directory)] == ["passed", "not started"]


def test_a_run_says_where_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MATRIX_PIPELINE_ID", "MATRIX_PIPELINE_URL"):
        monkeypatch.delenv(name, raising=False)
    ci = {
        "CI_JOB_ID": "71", "CI_JOB_URL": "https://lab.invalid/p/-/jobs/71", "CI_PROJECT_PATH": "g/p",
        "CI_PIPELINE_ID": "9",
        "CI_PROJECT_URL": "https://lab.invalid/p", "CI_COMMIT_SHA": "a" * 40, "CI_COMMIT_REF_NAME": "main",
        "CI_PIPELINE_URL": "https://lab.invalid/p/-/pipelines/9", "CI_PROJECT_DIR": str(tmp_path),
        "CI_PIPELINE_SOURCE": "schedule", "CI_MERGE_REQUEST_IID": "", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "",
        "CI_REPOSITORY_URL": "https://gitlab-ci-token:s3cr3ts3cr3t@lab.invalid/p.git",
    }  # fmt: skip
    for name, value in ci.items():
        monkeypatch.setenv(name, value)
    run_dir = tmp_path / "runs" / "abc123"
    said = records.started_fields(
        {CELL: {"os": "debian-13"}}, infra="kubevirt", provider="kubeconfig", checkout=tmp_path, directory=run_dir
    )
    assert said["where"] == asdict(
        RunOrigin(
            "g/p",
            ci["CI_PROJECT_URL"],
            "a" * 40,
            "main",
            "",
            "9",
            ci["CI_PIPELINE_URL"],
            "71",
            ci["CI_JOB_URL"],
            "schedule",
        )
    )
    assert said["logs"] == "runs/abc123"
    assert "s3cr3t" not in json.dumps(said)


def test_a_desk_has_its_checkouts_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI_JOB_ID", raising=False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for arguments in (["init", "-q", "-b", "topic"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        proc.run([*git, *arguments], timeout=20)
    said = records.started_fields({}, infra="embedded", provider="local", checkout=tmp_path, directory=tmp_path)[
        "where"
    ]
    assert (len(said["commit"]), said["branch"], said["pipeline"], said["changed"]) == (40, "topic", "", False)


def test_a_directory_without_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI_JOB_ID", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    said = records.started_fields({}, infra="embedded", provider="local", checkout=tmp_path, directory=tmp_path)[
        "where"
    ]
    assert (said["commit"], said["branch"], said["changed"]) == ("", "", False)


def test_a_secret_in_a_failure_does_not_reach_the_history(run: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_JOB_TOKEN", "s3cr3t-job-token")
    run.start(CELL).step(CELL, "deploy").check(CELL, "test_a", "failed", blame="product", detail="got s3cr3t-job-token")
    run.step(CELL, "reset", outcome="failed", blame="product", summary="s3cr3t-job-token", detail="x s3cr3t-job-token")
    assert b"s3cr3t" not in b"".join(map(to_line, records_of(run.directory)))


def test_long_texts_are_cut_in_the_middle(run: Written) -> None:
    run.start(CELL).step(CELL, "deploy").check(CELL, "test_a", "failed", blame="product", detail="a" * 9000 + "the end")
    message = only(run).notes[0].message
    assert len(message) <= 2000
    assert message.endswith("the end")


def test_a_clock_that_was_set_back_is_survived(run: Written) -> None:
    run.start(CELL).step(CELL, "deploy", seconds=60.0)
    run.seconds = -100
    run.step(CELL, "teardown")
    assert only(run).finished >= only(run).started


@pytest.mark.parametrize("where", [{}, {"ahead": -1.79e9}], ids=["at a desk", "in a job"])
def test_a_clock_that_is_set_in_the_middle_of_a_run_costs_nothing(run: Written, where: dict[str, float]) -> None:
    run.seconds = -1.79e9
    run.event("run-start", run="r00001", cells=[CELL], where=where).admitted(CELL).step(CELL, "provision")
    run.seconds = 60
    run.step(CELL, "deploy", outcome="failed", blame="product", seconds=5.0).gone(CELL).end(1)
    found = only(run)
    assert (found.outcome, found.waited) == ("failed", 0.0)
    assert (found.started[:19], found.finished[:19]) == ("2026-11-21T09:00:59", "2026-11-21T09:01:14")
    assert load(run.directory).sessions[0].seconds == 15.0


def test_the_record_of_an_old_run_without_context_is_one(run: Written) -> None:
    run.start(CELL).passes(CELL)
    found = only(run)
    assert (found.axes, found.where, found.infra) == ({}, RunOrigin(), "")
    assert replace(found, axes={}) == found


def test_figures_are_kept_by_stage_also_when_details_are_dropped(run: Written) -> None:
    figures = [["dns_rate", "w-0", 1000.0, 0.5], ["scheduler_throughput", "", 80.0, 0.0], ["no figure"]]
    run.start(CELL).step(CELL, "deploy").check(CELL, "test_dns", properties={"figures": figures}).gone(CELL).end(0)
    wanted = {"deploy": {"dns_rate w-0": (1000.0, 0.5), "scheduler_throughput": (80.0, 0.0)}}
    assert only(run).figures == wanted
    assert forget(only(run)).figures == wanted


def test_what_machines_took_is_kept_also_when_details_are_dropped(run: Written) -> None:
    took = {
        "cp-0": {"memory": 2048, "asked": 1235, "deployed": 985, "peak": 1029, "clone": 620, "disk": 1640, "later": 1}
    }
    run.start(CELL).step(CELL, "provision").event("usage", cell=CELL, attempt=1, took=took).passes(CELL).end(0)
    expected = {"cp-0": MachineRecord(memory=2048, asked=1235, deployed=985, peak=1029, clone=620, disk=1640)}
    assert only(run).usage == forget(only(run)).usage == expected
    row = "| cp-0 | 985 MiB | 1029 MiB | 1235 MiB | 2048 MiB | 0.61 GiB | 1.60 GiB |"
    assert row in summary.render(load(run.directory))


def test_an_attempt_that_was_not_measured_has_not_what_the_one_before_took(run: Written) -> None:
    run.start(CELL).event("usage", cell=CELL, attempt=1, took={"cp-0": {"peak": 1029}}).fails(CELL, "provision")
    run.start(CELL, rerun=True).passes(CELL).end(0)
    assert only(run).usage == {}


def test_a_measurement_that_is_none_is_read_past(run: Written) -> None:
    run.start(CELL).event("usage", cell=CELL, attempt=1, took={"cp-0": {"peak": "much"}}).passes(CELL).end(0)
    assert (only(run).usage, load(run.directory).foreign) == ({}, (2,))


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
