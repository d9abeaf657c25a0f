"""The table of nightly runs: every environment of tox.ini is run by something, and rows do not grow old unseen."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from ci import nightly
from ci.nightly import OLDEST_DAYS, Job, Row, as_report, due, environments, jobs, mistakes, read, run, turns, write
from tests.unit.pages import ROOT

DAY = date(2026, 3, 20)
COMMIT = "0123456789" * 4
GOOD = Row("chaos", "", COMMIT, "2026-03-19", "passed", 1800)
CHAOS = Job("chaos")
# They serve, build or measure: nothing has to see them passed.
TOOLS = {"bench", "demo", "dev"}


def blocked(row: Row) -> list[str]:
    """Return what the gate refuses of one row."""
    return [one.message for one in mistakes([row], [CHAOS], DAY) if one.blocking]


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


def test_an_environment_with_parts_has_a_job_for_each() -> None:
    content = yaml.load((ROOT / ".gitlab-ci.yml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
    parts: dict[str, list[str]] = {}
    for job in jobs(ROOT / "tox.ini", ROOT / nightly.PARTS):
        parts.setdefault(job.environment, []).extend([job.part] if job.part else [])
    found = {
        job["variables"]["TOX_ENV"]: [part for row in job.get("parallel", {}).get("matrix", ()) for part in row["PART"]]
        for job in content.values()
        if isinstance(job, dict) and _at_night(job)
    }
    assert {name: parts.get(name, []) for name in found} == found
    in_parts = {job["variables"]["TOX_ENV"] for job in content.values() if _in_parts(job)}
    assert in_parts == {name for name, listed in found.items() if listed}


def _in_parts(job: object) -> bool:
    return isinstance(job, dict) and job.get("extends") == ".nightly-parts"


def _at_night(job: dict[str, object]) -> bool:
    return job.get("extends") in (".nightly", ".nightly-parts") and "TOX_ENV" in (job.get("variables") or {})  # type: ignore[operator]


def test_the_table_has_a_row_for_every_nightly_environment() -> None:
    """Whether rows are old is the linter's to say: a unit test does not fail by the calendar."""
    rows = read(ROOT / nightly.TABLE)
    assert [row.job for row in rows] == sorted(jobs(ROOT / "tox.ini", ROOT / nightly.PARTS))


def test_parts_of_a_folder_are_all_of_its_tests_once() -> None:
    split = tomllib.loads((ROOT / nightly.PARTS).read_text(encoding="utf-8"))
    folders = {name: ROOT / table["folder"] for name, table in split.items() if "folder" in table}
    assert set(folders) == {"embedded-all", "chaos"}
    for name, folder in folders.items():
        paths = [folder / path for part in split[name]["parts"].values() for path in part]
        assert [path for path in paths if not path.exists()] == []
        files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("test_*.py"))]
        assert Counter(files) == dict.fromkeys(folder.rglob("test_*.py"), 1), name


def test_environments_with_parts_take_their_arguments() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    for job, words in jobs(ROOT / "tox.ini", ROOT / nightly.PARTS).items():
        commands = tox[f"testenv:{job.environment}"]["commands"]
        if words[:1] == ("--shard",):
            assert any(start in commands for start in ("vmatrix run", "-m tests.faults", "tests/kill")), job
        elif words:
            folder = "/".join(words[0].split("/")[:2])
            assert f"-m ci.pytest_in {folder} -- {{posargs}}" in commands, job


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
        ({"environment": "chaoss"}, "no nightly environment or part chaoss"),
        ({"part": "1/2"}, "no nightly environment or part chaos 1/2"),
    ],
)
def test_a_row_that_says_too_little_or_is_old_is_refused(change: dict[str, object], said: str | None) -> None:
    found = blocked(replace(GOOD, **change))  # type: ignore[arg-type]
    if said is None:
        assert found == []
    else:
        assert any(said in message for message in found), found


def test_an_environment_that_did_not_run_is_named_and_passes_until_its_row_is_old() -> None:
    (told,) = mistakes([replace(GOOD, result="not-run", seconds=0, reason="no engine")], [CHAOS], DAY)
    assert told == nightly.Wrong(
        2,
        "chaos: did not run: no engine; commits after 2026-04-02 are refused; python -m ci.nightly run chaos",
        blocking=False,
    )
    (entry,) = json.loads(as_report([told]))
    assert entry["severity"] == "info"


def test_an_environment_without_a_row_and_a_second_row_are_refused() -> None:
    assert [one.message for one in mistakes([], [CHAOS], DAY)] == [
        "chaos has no row; run it: python -m ci.nightly run chaos"
    ]
    assert [one.line for one in mistakes([GOOD, GOOD], [CHAOS], DAY)] == [3]


def test_a_row_replaces_the_former_one_and_rows_are_in_order(tmp_path: Path) -> None:
    table = tmp_path / "nightly.csv"
    for row in (GOOD, replace(GOOD, environment="bootable"), replace(GOOD, result="failed", reason='a, "b"')):
        write(row, table)
    assert read(table) == [replace(GOOD, environment="bootable"), replace(GOOD, result="failed", reason='a, "b"')]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("environment,commit\n", ":1: expected the columns"),
        ("environment,part,commit,date,result,seconds,reason\na,b,c\n", ":2: expected 7 columns"),
        ("environment,part,commit,date,result,seconds,reason\na,,b,c,d,soon,\n", ":2: expected 7 columns"),
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
    assert run(CHAOS) == code
    (row,) = read()
    assert (row.environment, row.result, row.commit) == ("chaos", result, nightly.head())
    assert row.seconds >= 1
    assert (checkout / "called").read_text() == "run -e chaos\n"


def test_a_part_of_an_environment_that_passed_is_no_row(checkout: Path) -> None:
    (checkout / "code").write_text("0")
    assert nightly.main(["run", "chaos", "--", "-k", "one"]) == 0
    assert read() == []


PARTS = """
[chaos]
folder = "tests/chaos"
[chaos.parts]
disks = ["test_disks.py", "deep"]
api = ["test_api.py"]
"""


@pytest.mark.parametrize(
    ("parts", "job", "called"),
    [
        ("[chaos]\nshards = 3\n", "2/3", "run -e chaos -- --shard 2/3\n"),
        (PARTS, "disks", "run -e chaos -- tests/chaos/test_disks.py tests/chaos/deep\n"),
    ],
)
def test_a_part_has_a_row_of_its_own(checkout: Path, parts: str, job: str, called: str) -> None:
    (checkout / "code").write_text("0")
    (checkout / nightly.PARTS).write_text(parts)
    commit(checkout)
    assert nightly.main(["run", "chaos", "--part", job]) == 0
    assert (checkout / "called").read_text() == called
    assert [(row.job, row.result) for row in read()] == [(Job("chaos", job), "passed")]
    assert nightly.main(["check"]) == 1, "the other parts have no row"
    assert nightly.main(["run", "chaos"]) == 0
    assert nightly.main(["check"]) == 0
    assert {row.job for row in read()} == set(jobs())
    assert nightly.main(["run", "chaos", "--", "-k", "one"]) == 0
    assert (checkout / "called").read_text() == "run -e chaos -- -k one\n"
    assert {row.job for row in read()} == set(jobs()), "arguments of one's own are no part"


@pytest.mark.parametrize(
    ("parts", "words", "said"),
    [
        ("", ["run", "chaos", "--part", "1/2"], "chaos has no part 1/2; it has no parts"),
        (PARTS, ["record", "chaos", "--part", "discs", "passed"], "chaos has no part discs; it has disks, api"),
        ("[chaoss]\nshards = 2\n", ["check"], "no nightly environment chaoss"),
        ("[chaos]\nshards = 1\n", ["check"], "[chaos] needs `shards`, two or more, or `folder` and `parts`"),
        ("[chaos]\nshards = 2\nfolder = 'a'\n", ["check"], "[chaos] needs"),
        ("[chaos]\nfolder = 'a'\n", ["check"], "[chaos] needs"),
        ("[chaos]\nfolder = 'a'\nparts = {}\n", ["check"], "[chaos] needs"),
        ("[chaos\n", ["check"], "line 1"),
    ],
)
def test_a_part_that_there_is_not_and_a_file_of_another_form_are_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str], parts: str, words: list[str], said: str
) -> None:
    (checkout / nightly.PARTS).write_text(parts)
    assert nightly.main(words) == 2
    assert said in capsys.readouterr().err
    assert not (checkout / "called").exists()


def test_what_failed_is_due_first_then_what_has_not_run_then_what_passed_longest_ago() -> None:
    rows = [
        replace(GOOD, environment="new", date="2026-03-19"),
        replace(GOOD, environment="old", date="2026-03-01"),
        replace(GOOD, environment="old-too", date="2026-03-01", seconds=60),
        replace(GOOD, environment="idle", result="not-run", seconds=0),
        replace(GOOD, environment="red", result="failed"),
    ]
    every = [Job(name) for name in ("new", "old", "old-too", "idle", "red", "absent")]
    known = {row.job: row for row in rows}
    assert [str(job) for job in due(known, every)] == [
        "red",
        "absent",
        "idle",
        "old-too",
        "old",
        "new",
    ]


def test_turns_run_what_is_expected_to_end_in_time(checkout: Path) -> None:
    names = ("chaos", "kill", "kind")
    (checkout / "tox.ini").write_text("".join(f"[testenv:{name}]\ndescription = a (nightly)\n" for name in names))
    commit(checkout)
    write(replace(GOOD, seconds=1200))
    write(replace(GOOD, environment="kill", seconds=600))
    ran: list[str] = []

    def running(job: Job) -> int:
        ran.append(str(job))
        return int(job == Job("kill"))

    assert turns(15, running) == 1
    assert ran == ["kill"]
    assert turns(25, running) == 1
    assert turns(1, running) == 0
    assert ran == ["kill", "kill", "chaos"]
    assert turns(70, running) == 1
    assert ran[3:] == ["kind", "kill", "chaos"]


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
