"""`vmatrix logs`: lines with and without their source, what it refuses, and where logs of a cell that ended are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from harness.cell.existing import Existing
from harness.cell.logs import LogLine, LogWish
from harness.cli import app, logs
from harness.errors import BadInput
from harness.rundir import RESULTS, RunDir

runner = CliRunner()
LINES = (LogLine("cp-0 console", "login:"), LogLine("deploy", "TASK [x]"))


class There:
    """A cell with the machine cp-0."""

    def instance(self, machine: str) -> dict[str, Any]:
        """Return it, or refuse."""
        if machine != "cp-0":
            raise BadInput(f"no running machine {machine!r}", hint="running machines: cp-0")
        return {}


@pytest.fixture
def wishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[LogWish]:
    asked: list[LogWish] = []

    def lines(_: Existing, wish: LogWish, __: object) -> Iterator[LogLine]:
        asked.append(wish)
        yield from LINES

    class Following:
        def __init__(self, *given: Any) -> None:
            self.given = given

        def lines(self) -> Iterator[LogLine]:
            yield from lines(*self.given)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "cell_at", lambda *_: cast(Existing, There()))
    monkeypatch.setattr(logs, "last_lines", lines)
    monkeypatch.setattr(logs, "Followed", Following)
    return asked


def test_lines_say_where_they_come_from(wishes: list[LogWish]) -> None:
    done = runner.invoke(app, ["logs", "c1"])
    assert (done.exit_code, done.stdout) == (0, "cp-0 console: login:\ndeploy: TASK [x]\n")
    assert wishes == [LogWish(None, ("phases", "console", "journal"), 100)]


def test_one_source_of_one_machine_speaks_for_itself(wishes: list[LogWish]) -> None:
    done = runner.invoke(app, ["logs", "c1", "cp-0", "--source", "console", "--tail", "3"])
    assert done.stdout == "login:\nTASK [x]\n"
    assert wishes == [LogWish("cp-0", ["console"], 3)]


def test_following_says_when_the_cell_has_ended(wishes: list[LogWish]) -> None:
    done = runner.invoke(app, ["logs", "c1", "-f"])
    assert done.exit_code == 0
    assert done.stderr == "cell c1 has ended\n"
    assert len(wishes) == 1


def test_foreign_sources_and_machines_are_refused(wishes: list[LogWish]) -> None:
    for words in (["logs", "c1", "--source", "jornal"], ["logs", "c1", "w-9"]):
        assert isinstance(runner.invoke(app, words).exception, BadInput)
    assert wishes == []


def test_the_collected_logs_of_a_cell_that_has_ended_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Existing:
        raise BadInput("cell 'c1' does not exist in the infra cluster")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "cell_at", none)
    run = RunDir.of(Path("runs"), "abc123")
    run.attempt("c1").logs.mkdir(parents=True)
    (run.path / RESULTS).touch()
    with pytest.raises(BadInput) as refused:
        runner.invoke(app, ["logs", "c1"], catch_exceptions=False)
    assert refused.value.hint.endswith("runs/abc123/c1/logs")
