"""`vmatrix report` and `vmatrix history` as they are called: from runs to a report, and what they refuse."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli import main
from harness.history.record import RunOrigin, to_line
from harness.paths import PROJECT
from harness.report.output import files
from harness.report.output.files import FORMATS, Sources
from harness.rundir import RESULTS
from tests.unit.history.make import CELL, checked, record
from tests.unit.report.written import Written

Call = Callable[..., tuple[int, str, str]]
NAMES = {
    "html": "index.html",
    "md": "summary.md",
    "json": "report.json",
    "svg": "badge-pass-rate.svg",
    "annotations": "annotations.json",
}  # one file of each format
OUTSIDE = ("VMATRIX_", "CI_", "MATRIX_", "GITLAB_")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what runs the command in an empty directory outside of any job: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(OUTSIDE) and name != PROJECT]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vmatrix", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with two runs, the later of which failed in a check."""
    for number in range(2):
        (tmp_path / "runs" / f"r0000{number}").mkdir(parents=True)
        run = Written(tmp_path / "runs" / f"r0000{number}", seconds=number * 86400.0)
        where = {"commit": f"{number}" * 40, "branch": "main"}
        more = {"command": "x", "cells": [CELL], "tier": "pr", "where": where, "infra": "embedded"}
        run.event("run-start", run=f"r0000{number}", values={CELL: {"os": "debian-13"}}, **more)
        run.step(CELL, "deploy").check(CELL, "test_dns", "passed" if number == 0 else "failed", blame="product")
        run.gone(CELL).end(number)
    return tmp_path / "runs"


def test_runs_become_a_report(call: Call, runs: Path) -> None:
    assert call("history", "add", "runs")[:2] == (0, "runs/history.jsonl: 2 cell runs added, 0 skipped\n")
    assert call("history", "add", "runs")[1] == "runs/history.jsonl: 0 cell runs added, 2 skipped\n"
    code, said, told = call("report", "--output", "out")
    assert code == 0
    assert "failed (product), new, passed the run before" in told
    made = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    assert made["cells"][0]["outcomes"] == "pf"
    assert made["cells"][0]["since"]["good_commit"] == "0" * 40
    assert sorted(said.split()) == sorted(f"out/{p.name}" for p in Path("out").iterdir())
    assert {p.name for p in Path("out").iterdir()} >= {"index.html", "summary.md", "badge-coverage.svg"}


def test_the_score_of_faults_is_taken_from_where_it_was_counted(call: Call, runs: Path) -> None:
    suites = {"all": {"faults": 2, "detected": 2, "explained": 1}}
    said = json.dumps({"on": "2026-11-23", "listed": 3, "suites": suites, "faults": {}})
    (runs / "faults").mkdir()
    (runs / "faults" / "faults.json").write_text(said, encoding="utf-8")
    assert call("report", "--history", "runs", "--output", "usual")[0] == 0
    assert json.loads(Path("usual/report.json").read_text(encoding="utf-8"))["faults"]["listed"] == 3
    Path("other.json").write_text(said.replace("3", "4"), encoding="utf-8")
    assert call("report", "--history", "runs", "--output", "named", "--faults", "other.json")[0] == 0
    assert json.loads(Path("named/report.json").read_text(encoding="utf-8"))["faults"]["listed"] == 4
    Path("other.json").write_text("[]", encoding="utf-8")
    code, _, told = call("report", "--history", "runs", "--output", "none", "--faults", "other.json")
    assert (code, Path("none").exists()) == (2, False)
    assert "other.json is not a score of faults" in told


def test_a_report_needs_no_store(call: Call, runs: Path) -> None:
    extra = Path("extra.jsonl")
    extra.write_bytes(to_line(record(0, "other", tier="pr")) + b"torn")
    code, _, told = call(
        "report", "--history", "runs", "--history", "extra.jsonl", "--output", "out", "--format", "json"
    )
    assert code == 0
    assert "not read: extra.jsonl:2: Invalid JSON" in told
    made = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    assert {cell["id"] for cell in made["cells"]} == {CELL, "other"}
    assert [p.name for p in Path("out").iterdir()] == ["report.json"]
    assert not Path("runs/history.jsonl").exists()


def test_cell_runs_of_times_to_come_are_no_last_night_and_their_hosts_are_named(call: Call, runs: Path) -> None:
    later = replace(
        record(0, tier="pr", where=RunOrigin(runner="lab-2")),
        started="2099-01-01T00:00:00Z",
        finished="2099-01-01T01:00:00Z",
    )
    Path("extra.jsonl").write_bytes(to_line(later))
    words = ("report", "--history", "runs", "--history", "extra.jsonl", "--output", "out", "--format", "json")
    code, _, told = call(*words)
    assert code == 0
    assert "1 cell run of times to come left out: set the clock of the host of lab-2" in told
    made = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    assert [night["date"] for night in made["nights"]] == ["2026-11-21", "2026-11-22"]


def test_nothing_to_report_is_said_and_no_failure(call: Call) -> None:
    code, _, told = call("report", "--output", "out", "--format", "md")
    assert code == 0
    assert "no matching runs: 0 cell runs" in told
    assert "no runs" in Path("out/summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("runs_there", [True, False])
def test_a_pipeline_without_any_run_adds_nothing(call: Call, runs_there: bool) -> None:
    if runs_there:
        Path("runs").mkdir()
    assert call("history", "add", "runs")[:2] == (0, "runs/history.jsonl: 0 cell runs added, 0 skipped\n")


def test_results_that_are_damaged_are_named(call: Call, runs: Path) -> None:
    (runs / "broken").mkdir()
    (runs / "broken" / "results.jsonl").write_text(
        '{"event": "run-start", "time": 7}\n{"event": "check", "cell": "x"}\n'
    )
    code, said, _ = call("history", "add", "runs")
    assert code == 0
    assert "not read: runs/broken/results.jsonl" in said
    assert "2 cell runs added" in said


def test_the_history_is_compacted_and_shown(call: Call) -> None:
    Path("old.jsonl").write_bytes(to_line(checked(record(0, of=60), {"a: b": "p"})))
    call("history", "add", "old.jsonl")
    assert call("history", "compact")[1].startswith("runs/history.jsonl: details of 1 cell runs older than 30 days")
    said = call("history", "show")[1]
    assert "1 cell runs (1 without details), 0 duplicates, 0 unreadable lines" in said


def test_a_merge_requests_pipeline_is_looked_at(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    main_line = [checked(record(n, of=3), {"a: b": "p"}) for n in range(2)]
    topic = RunOrigin(branch="topic", pipeline="777")
    mine = checked(record(2, of=3, outcome="failed", tier="mr", where=topic), {"a: b": "f"})
    Path("h.jsonl").write_bytes(b"".join(map(to_line, [*main_line, mine])))
    given = {"CI_MERGE_REQUEST_IID": "5", "CI_PIPELINE_ID": "777", "CI_DEFAULT_BRANCH": "main"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert call("report", "--history", "h.jsonl", "--output", "out")[0] == 0
    made = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    assert made["selection"] == {"tier": None, "branch": "main", "infra": "embedded", "days": 365.0, "focus": "777"}
    assert (made["cells"][0]["outcomes"], made["cells"][0]["news"]) == ("ppf", "new")


@pytest.mark.parametrize("broken", FORMATS)
def test_a_format_that_cannot_be_made_keeps_no_other_from_being_written(
    call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(_: Sources) -> dict[str, str]:
        raise ZeroDivisionError(f"{broken} is broken")

    monkeypatch.setattr(files, "WRITERS", {**files.WRITERS, broken: fail})
    code, said, told = call("report", "--output", "out")
    assert code == 70
    assert f"{broken}: could not be made: ZeroDivisionError: {broken} is broken" in told
    assert NAMES[broken] not in said
    assert all(name in said for other, name in NAMES.items() if other != broken)
    assert all(Path(line).is_file() for line in said.splitlines())


@pytest.mark.parametrize("words", [["report", "--output", "out"], ["schema", "--directory", "out"]])
def test_a_reader_that_is_gone_loses_no_file(
    call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    _, said, _ = call(*words)
    shutil.rmtree("out")

    def gone(console: Console, *_: object, **__: object) -> None:
        if not console.stderr:
            raise BrokenPipeError

    monkeypatch.setattr(Console, "print", gone)
    call(*words)
    assert said.splitlines()
    assert all(Path(line).is_file() for line in said.splitlines())


@pytest.mark.parametrize("name", NAMES.values())
def test_a_file_that_cannot_be_written_keeps_no_other_from_being_written(call: Call, runs: Path, name: str) -> None:
    (Path("out") / name / "x").mkdir(parents=True)
    code, said, told = call("report", "--output", "out")
    assert code == 2
    assert f"out/{name}: Is a directory" in told
    assert f"out/{name}" not in said
    assert all(other in said for other in NAMES.values() if other != name)


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (["report", "--format", "pdf"], "unknown format 'pdf'", "html, md"),
        (["report", "--format", ","], "unknown format", "known"),
        (["report", "--serve", "--alert", "night"], "--serve sends no alerts", "leave out"),
        (["report", "--days", "3", "--since", "2026-01-01"], "--days and --since", "one of them"),
        (["report", "--since", "yesterday"], "'yesterday' is not a date (YYYY-MM-DD)", "2026-11-21"),
        (["report", "--since", "2999-01-01"], "is not in the past", "first day"),
        (["report", "--history", "none.jsonl"], "cannot read the history: none.jsonl", "--history"),
        (["report", "--tier", "weekly"], "there is no tier 'weekly'", "nightly"),
        (["history", "add", "none.jsonl"], "none.jsonl does not exist", "run"),
        (["history", "add", "/dev/null"], "/dev/null is neither a folder nor a regular file", "run directories"),
        (["history", "add", "/dev"], "/dev is not the folder of a run, and has no folder of one", "run directories"),
        (["report", "--output", "/dev/null/x"], "cannot write to /dev/null/x", "--output"),
    ],
)
def test_what_cannot_be_used_is_refused(call: Call, tmp_path: Path, words: list[str], says: str, hint: str) -> None:
    code, said, told = call(*words)
    message, _, advice = told.partition("hint: ")
    assert (code, said) == (2, "")
    assert says in message
    assert hint in advice
    assert list(tmp_path.iterdir()) == []


def test_a_package_without_gitlab_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMATRIX_REPORT_HISTORY", "package")
    code, _, told = call("report")
    assert code == 2
    assert "CI_API_V4_URL, CI_PROJECT_ID, MATRIX_HISTORY_TOKEN (or CI_JOB_TOKEN)" in told


@pytest.mark.parametrize("days", ["inf", "nan", "1e9", "1e12", "-1", "36501"])
@pytest.mark.parametrize("command", [["report"], ["history", "compact"]], ids=" ".join)
def test_days_that_no_calendar_has_are_refused(call: Call, tmp_path: Path, command: list[str], days: str) -> None:
    code, said, told = call(*command, "--days", days)
    assert (code, said) == (2, "")
    assert "--days" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["report", "--since", "0001-01-01"], ["report", "--days", "36500"]])
def test_a_history_is_looked_at_as_far_back_as_it_can_be(call: Call, runs: Path, command: list[str]) -> None:
    assert call("history", "add", f"runs/r00001/{RESULTS}")[1].startswith("runs/history.jsonl: 1 cell runs added")
    assert call("history", "compact", "--days", "36500")[0] == 0
    assert call(*command)[0] == 0


def test_a_night_by_a_clock_that_was_not_set_counts_with_its_failures(call: Call, tmp_path: Path) -> None:
    moments = {"started": "1970-01-01T00:00:09.000Z", "finished": "1970-01-01T00:05:09.000Z"}
    early = record(1, outcome="failed", of=2, id="19700101T000009000Z.run001", **moments)
    (tmp_path / "runs").mkdir()
    file = tmp_path / "runs" / "history.jsonl"
    file.write_bytes(to_line(record(0, of=2)) + to_line(early))
    for _ in range(2):
        code, _, told = call("report", "--tier", "all", "--branch", "all", "--format", "json")
        assert code == 0
        assert "1 cell run of 1970 counted as of later: set the clock of the host of run run001" in told
        assert "1 failed" in told
        assert call("history", "compact")[0] == 0
