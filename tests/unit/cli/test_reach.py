"""`vmatrix login | proxy | kubeconfig | kubectl`: what they run, with the options before kubectl's own words."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness import proc
from harness.cell.machines import SSH_PORT
from harness.cli import app, reach
from harness.errors import BadInput
from harness.model import Machine, PlannedMachine
from harness.rundir import AttemptDir
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

    def existing(name: str, _: Settings) -> Cell:
        assert name == "c1"
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
