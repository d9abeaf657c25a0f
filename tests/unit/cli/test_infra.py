"""`vmatrix infra` and `vmatrix doctor`: what they print, and the exit codes a script sees."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import doctor, infra
from harness.errors import EXIT_BAD_INPUT, EXIT_INFRA, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput
from harness.infra.host import preflight, requirements, room
from harness.infra.host.layout import layout_of
from harness.infra.host.requirements import Requirement
from harness.infra.host.status import InstanceStatus, ProgramStatus, State

app = typer.Typer()
doctor.register(app)
app.add_typer(infra.app, name="infra")
runner = CliRunner()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this host have everything."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "PROGRAMS", ())
    monkeypatch.setattr(requirements, "BUILDERS", ())
    monkeypatch.setattr(requirements, "KERNEL", ())
    monkeypatch.setattr(preflight, "COMPILER", Requirement("sh", "everything", ("sh", "-c", "exit 0"), ""))
    monkeypatch.setattr(preflight, "check_ports", lambda *_: [])
    monkeypatch.setattr(room, "check_disk", lambda *_: [])


def test_status_of_what_is_not_there_says_how_to_bring_it_up() -> None:
    done = runner.invoke(app, ["infra", "status", "--name", "unit-none"])
    assert done.exit_code == EXIT_NOTHING_SELECTED
    assert done.output == "infra unit-none is down; to create it: vmatrix infra up --name unit-none\n"


def test_status_for_programs_is_json() -> None:
    done = runner.invoke(app, ["infra", "status", "--name", "unit-none", "--json"])
    assert done.exit_code == EXIT_NOTHING_SELECTED
    assert json.loads(done.output)["state"] == "down"


def test_remains_without_a_record_are_broken_and_named() -> None:
    layout = layout_of("unit-remains", "embedded")
    layout.root.mkdir(parents=True)
    done = runner.invoke(app, ["infra", "status", "--name", "unit-remains"])
    assert done.exit_code == EXIT_INFRA
    assert f"left on this host: file {layout.root}" in done.output
    assert "to delete it: vmatrix infra down --name unit-remains" in done.output


def test_every_state_has_its_own_exit_code() -> None:
    assert infra.EXIT_CODES == {State.UP: EXIT_OK, State.BROKEN: EXIT_INFRA, State.DOWN: EXIT_NOTHING_SELECTED}


def test_a_broken_program_and_its_log_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    programs = (ProgramStatus("etcd", 7, 61, 44, ""), ProgramStatus("mirror", None, 0, 0, "ended; /x/mirror.log"))
    infra.show("unit", InstanceStatus(State.BROKEN, programs), {"server": "https://10.213.0.1:6443"})
    shown = capsys.readouterr().out
    assert "infra unit is broken" in shown
    assert "0:01:01" in shown
    assert "/x/mirror.log" in shown
    assert "to repair it: vmatrix infra up --name unit" in shown


def test_a_provider_that_cannot_be_brought_up_is_bad_input() -> None:
    done = runner.invoke(app, ["infra", "up", "--provider", "kubeconfig"])
    assert isinstance(done.exception, BadInput)


@pytest.mark.usefixtures("complete")
def test_doctor_finds_nothing_on_a_complete_host() -> None:
    done = runner.invoke(app, ["doctor", "--json"])
    assert [f for f in json.loads(done.output) if f["fatal"]] == []
    assert done.exit_code == EXIT_OK


@pytest.mark.usefixtures("complete")
def test_doctor_shows_what_is_missing_and_a_command_that_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = (
        Requirement("no-such-one", "machines need it", ("no-such-one",), "apt-get install --yes no-such-one"),
        Requirement("no-such-two", "machines need it", ("no-such-two",), "apt-get install --yes no-such-two"),
    )
    monkeypatch.setattr(requirements, "PROGRAMS", absent)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = runner.invoke(app, ["doctor"])
    assert done.exit_code == EXIT_BAD_INPUT
    assert "  apt-get install --yes no-such-one no-such-two\n" in done.output
    assert "this is user 1000, not root" in done.output.replace("\n", " ")
    assert "this host lacks 3 things" in done.output


@pytest.mark.usefixtures("complete")
def test_doctor_says_that_memory_is_too_little() -> None:
    done = runner.invoke(app, ["doctor", "--memory", str(2**30), "--json"])
    assert done.exit_code == EXIT_BAD_INPUT
    (finding,) = [f for f in json.loads(done.output) if f["fatal"]]
    assert finding["what"].endswith("MiB of memory are available")


def test_doctor_of_an_unreachable_cluster_exits_with_bad_input(tmp_path: Path) -> None:
    done = runner.invoke(app, ["doctor", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == EXIT_BAD_INPUT
    assert "lacks 1 thing\n" in done.output


def test_doctor_of_an_unknown_provider_is_bad_input() -> None:
    done = runner.invoke(app, ["doctor", "--provider", "cloud"])
    assert isinstance(done.exception, BadInput)
