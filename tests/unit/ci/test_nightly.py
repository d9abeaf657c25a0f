"""The table of nightly runs: every environment of tox.ini is run by something, and rows do not grow old unseen."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from ci import nightly
from ci.nightly import OLDEST_DAYS, Row, as_report, environments, mistakes, read, run, write
from tests.unit.pages import ROOT

DAY = date(2026, 3, 20)
COMMIT = "0123456789" * 4
GOOD = Row("chaos", COMMIT, "2026-03-19", "passed", 1800)
# They serve, build or measure: nothing has to see them passed.
TOOLS = {"bench", "demo", "dev"}


def blocked(row: Row) -> list[str]:
    """Return what the gate refuses of one row."""
    return [one.message for one in mistakes([row], ["chaos"], DAY) if one.blocking]


def test_every_environment_is_run_on_pushes_or_at_night() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    default = {name.strip() for name in tox["tox"]["env_list"].split(",")}
    jobs = yaml.load((ROOT / ".gitlab-ci.yml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
    pushed = {
        job["variables"]["TOX_ENV"]
        for job in jobs.values()
        if isinstance(job, dict) and job.get("extends") == ".tox" and "TOX_ENV" in job.get("variables", {})
    }
    unseen = set(environments(ROOT / "tox.ini")) - default - pushed - set(nightly.nightly(ROOT / "tox.ini")) - TOOLS
    assert unseen == set(), "say in its description that it is nightly, or give it a job"


def test_jobs_of_the_night_run_nightly_environments() -> None:
    jobs = yaml.load((ROOT / ".gitlab-ci.yml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
    night = {job["variables"]["TOX_ENV"] for job in jobs.values() if isinstance(job, dict) and _at_night(job)}
    assert len(night) > 5
    default = {"contract", "embedded", "smoke"}  # which have a job at night and run with `make test`
    assert night <= set(nightly.nightly(ROOT / "tox.ini")) | default


def _at_night(job: dict[str, object]) -> bool:
    return job.get("extends") == ".nightly" and "TOX_ENV" in (job.get("variables") or {})  # type: ignore[operator]


def test_the_table_has_a_row_for_every_nightly_environment() -> None:
    """Whether rows are old is the linter's to say: a unit test does not fail by the calendar."""
    rows = read(ROOT / nightly.TABLE)
    assert [row.environment for row in rows] == sorted(nightly.nightly(ROOT / "tox.ini"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"date": "2026-03-06"}, None),
        ({"date": "2026-03-05"}, f"15 days older than the commit, at most {OLDEST_DAYS}"),
        ({"date": "2026-03-21"}, "later than 2026-03-20, the day of the commit"),
        ({"date": "yesterday"}, "write YYYY-MM-DD"),
        ({"commit": "0123456"}, "all 40 digits"),
        ({"result": "ok"}, "use passed, failed, not-run"),
        ({"seconds": 0}, "within no time"),
        ({"result": "failed", "reason": "tox ended with 1"}, "failed at 012345678901: tox ended with 1"),
        ({"result": "not-run"}, "does not say why"),
        ({"result": "not-run", "reason": "no engine", "date": "2026-03-05"}, "15 days older"),
        ({"environment": "chaoss"}, "no nightly environment chaoss"),
    ],
)
def test_a_row_that_says_too_little_or_is_old_is_refused(change: dict[str, object], said: str | None) -> None:
    found = blocked(replace(GOOD, **change))  # type: ignore[arg-type]
    if said is None:
        assert found == []
    else:
        assert any(said in message for message in found), found


def test_an_environment_that_did_not_run_is_named_and_passes_until_its_row_is_old() -> None:
    (told,) = mistakes([replace(GOOD, result="not-run", seconds=0, reason="no engine")], ["chaos"], DAY)
    assert told == nightly.Wrong(
        2,
        "chaos: did not run: no engine; commits after 2026-04-02 are refused; python -m ci.nightly run chaos",
        blocking=False,
    )
    (entry,) = json.loads(as_report([told]))
    assert entry["severity"] == "info"


def test_an_environment_without_a_row_and_a_second_row_are_refused() -> None:
    assert [one.message for one in mistakes([], ["chaos"], DAY)] == [
        "chaos has no row; run it: python -m ci.nightly run chaos"
    ]
    assert [one.line for one in mistakes([GOOD, GOOD], ["chaos"], DAY)] == [3]


def test_a_row_replaces_the_former_one_and_rows_are_in_order(tmp_path: Path) -> None:
    table = tmp_path / "nightly.csv"
    for row in (GOOD, replace(GOOD, environment="bootable"), replace(GOOD, result="failed", reason='a, "b"')):
        write(row, table)
    assert read(table) == [replace(GOOD, environment="bootable"), replace(GOOD, result="failed", reason='a, "b"')]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("environment,commit\n", ":1: expected the columns"),
        ("environment,commit,date,result,seconds,reason\na,b,c\n", ":2: expected 6 columns"),
        ("environment,commit,date,result,seconds,reason\na,b,c,d,soon,\n", ":2: expected 6 columns"),
    ],
)
def test_a_table_of_another_form_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "nightly.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "nightly.csv")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout of one nightly environment and a tox that ends as the file `code` says."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "tox.ini").write_text("[testenv:chaos]\ndescription = fail (nightly)\n[testenv:unit]\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tox").write_text('#!/bin/sh\necho "$@" > called\nexit $(cat code)\n')
    (tmp_path / "bin" / "tox").chmod(0o755)
    (tmp_path / ".gitignore").write_text("code\ncalled\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run([shutil.which("git") or "git", *words], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x")


@pytest.mark.parametrize(("code", "result"), [(0, "passed"), (1, "failed")])
def test_a_run_writes_its_row_with_the_commit_that_was_tested(checkout: Path, code: int, result: str) -> None:
    (checkout / "code").write_text(str(code))
    assert run("chaos", []) == code
    (row,) = read()
    assert (row.environment, row.result, row.commit) == ("chaos", result, nightly.head())
    assert row.seconds >= 1
    assert (checkout / "called").read_text() == "run -e chaos\n"


def test_a_part_of_an_environment_that_passed_is_no_row(checkout: Path) -> None:
    (checkout / "code").write_text("0")
    assert nightly.main(["run", "chaos", "--", "-k", "one"]) == 0
    assert read() == []


def test_a_checkout_with_changes_is_no_commit(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "tox.ini").write_text((checkout / "tox.ini").read_text() + "\n")
    assert nightly.main(["run", "chaos"]) == 2
    assert "tox.ini" in capsys.readouterr().err


def test_a_row_of_a_run_elsewhere_is_recorded_and_judged(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nightly.main(["record", "chaos", "not-run"]) == 2
    assert "does not say why" in capsys.readouterr().err
    assert nightly.main(["record", "chaos", "failed", "--commit", "0123456"]) == 2
    assert "all 40 digits" in capsys.readouterr().err
    assert nightly.main(["record", "chaos", "passed", "--seconds", "60", "--commit", COMMIT]) == 0
    assert nightly.main(["check"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_rows_are_as_old_as_to_the_commit_that_has_them(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that passed does not begin to fail by itself; one that changes the table is judged by today."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-14T23:30:00-01:00")
    write(replace(GOOD, date="2020-01-01"))
    assert nightly.main(["check"]) == 1
    commit(checkout)
    assert nightly.day_of_table() == date(2020, 1, 15)
    assert nightly.main(["check"]) == 0
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-16T00:00:00Z")
    git(checkout, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "y", "--allow-empty")
    assert nightly.main(["check"]) == 1
