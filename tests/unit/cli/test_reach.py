"""`vmatrix login | proxy | kubeconfig | kubectl`: what they run, with the options before kubectl's own words."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from harness import proc
from harness.cell.existing import Existing
from harness.cell.logs import LogLine, LogWish
from harness.cell.machines import SSH_PORT
from harness.cli import app, reach
from harness.errors import BadInput
from harness.model import Machine, PlannedMachine
from harness.rundir import RESULTS, AttemptDir, RunDir
from harness.spec.settings import Settings

runner = CliRunner()


class Cell:
    """An existing cell with one machine, cp-0."""

    def __init__(self, directory: Path) -> None:
        self.files = AttemptDir(directory)
        self.connected: list[tuple[str, int]] = []

    def instance(self, machine: str) -> dict[str, Any]:
        """Return it, or refuse."""
        if machine != "cp-0":
            raise BadInput(f"no running machine {machine!r}", hint="running machines: cp-0")
        return {}

    def machine(self, _: str) -> Machine:
        """Return it as SSH reaches it."""
        return Machine(PlannedMachine("cp-0", (), 0, 0, 0, ""), "10.1.2.3", SSH_PORT, "me", None)

    def file(self, path: Path, _: str) -> Path:
        """Return any file."""
        return path

    def connect(self, machine: str, port: int, _: int, __: int) -> None:
        """Write down what is connected."""
        self.connected.append((machine, port))

    @contextmanager
    def guest_api(self) -> Iterator[Path]:
        """Give the cell's own kubeconfig."""
        yield self.files.kubeconfig


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.chdir(tmp_path)
    made = Cell(tmp_path)

    def existing(name: str, _: Settings, run: str | None = None) -> Cell:
        assert (name, run) == ("c1", None)
        return made

    monkeypatch.setattr(reach, "cell_at", existing)
    return made


def test_login_becomes_ssh_with_the_cells_key(there: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execvp", lambda _, argv: calls.append(list(map(str, argv))))
    assert runner.invoke(app, ["login", "c1", "cp-0", "uname", "--infra-name", "x"]).exit_code == 0
    ((*ssh, last),) = calls
    assert ssh[:2] == ["ssh", "-t"]
    assert str(there.files.key) in ssh
    assert "me@10.1.2.3" in ssh
    assert last == "uname"


@pytest.mark.parametrize(
    "words",
    [
        ("uname", "-a"),
        ("sh", "-c", "echo 'a  b'; echo $HOME | cat"),
        ("grep", "-e", "a b", "/etc/hosts"),
        ("printf", "%s", "", '"', "\\"),
    ],
)
def test_login_hands_on_the_words_of_a_command_as_they_are(
    there: Cell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execvp", lambda _, argv: calls.append(list(map(str, argv))))
    assert runner.invoke(app, ["login", "c1", "cp-0", "--", *words]).exit_code == 0
    ((*_, last),) = calls  # which the shell of the machine splits
    assert tuple(shlex.split(last)) == words


def test_login_leaves_a_line_to_the_shell_of_the_machine() -> None:
    assert reach.remote_command(["ls /root | wc -l"]) == ["ls /root | wc -l"]
    assert reach.remote_command([]) == []


@pytest.mark.usefixtures("there")
def test_login_refuses_a_machine_that_does_not_run() -> None:
    result = runner.invoke(app, ["login", "c1", "w-9"])
    assert isinstance(result.exception, BadInput)
    assert "no running machine 'w-9'" in result.exception.summary


def test_proxy_connects_to_ssh_unless_told(there: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def fileno(self) -> int:
            return 0

    monkeypatch.setattr(reach, "sys", type("Streams", (), {"stdin": Stream(), "stdout": Stream()}))
    runner.invoke(app, ["proxy", "c1", "cp-0"], catch_exceptions=False)
    runner.invoke(app, ["proxy", "c1", "cp-0", "6443"], catch_exceptions=False)
    assert there.connected == [("cp-0", SSH_PORT), ("cp-0", 6443)]


def test_kubeconfig_prints_the_path(there: Cell) -> None:
    result = runner.invoke(app, ["kubeconfig", "c1"], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, f"{there.files.kubeconfig}\n")


def test_kubectl_gets_its_words_and_gives_its_exit_code(there: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[str], dict[str, str]]] = []

    def attend(argv: Sequence[object], *, env: dict[str, str]) -> int:
        calls.append((list(map(str, argv)), env))
        return 7

    monkeypatch.setattr(proc, "attend", attend)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/kubectl")
    result = runner.invoke(app, ["kubectl", "--namespace", "shared", "c1", "get", "pods", "-n", "kube-system"])
    assert result.exit_code == 7
    words = ["/bin/kubectl", "get", "pods", "-n", "kube-system"]
    assert calls == [(words, {"KUBECONFIG": str(there.files.kubeconfig), "KUBECACHEDIR": str(there.files.kube_cache)})]


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
    monkeypatch.setattr(reach, "cell_at", lambda *_: cast(Existing, There()))
    monkeypatch.setattr(reach, "last_lines", lines)
    monkeypatch.setattr(reach, "Followed", Following)
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
    monkeypatch.setattr(reach, "cell_at", none)
    run = RunDir.of(Path("runs"), "abc123")
    run.attempt("c1").logs.mkdir(parents=True)
    (run.path / RESULTS).touch()
    with pytest.raises(BadInput) as refused:
        runner.invoke(app, ["logs", "c1"], catch_exceptions=False)
    assert refused.value.hint.endswith("runs/abc123/c1/logs")
