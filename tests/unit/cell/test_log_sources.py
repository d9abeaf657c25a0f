"""Lines of consoles and of phases: none twice, none lost, and none that moves a terminal's cursor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell import log_sources
from harness.cell.existing import Existing
from harness.cell.log_sources import LogLine, MachineConsole, PhaseLogs, clean
from harness.kube.client import Unreachable
from harness.rundir import AttemptDir


class Launcher:
    """An infra cluster with one launcher, whose log it sends; asked: how many earlier lines, each time."""

    def __init__(self) -> None:
        self.uid = "a"
        self.asked: list[int | None] = []
        self.lines: list[str | Exception] = []

    def follow_pod_log(self, _: str, __: str, *, container: str, tail: int | None) -> Iterator[str]:
        """Send what there is, or break off."""
        assert container == "guest-console-log"
        self.asked.append(tail)
        for line in self.lines:
            if isinstance(line, Exception):
                raise line
            yield line


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    made = Launcher()
    monkeypatch.setattr(
        log_sources, "launcher_pod", lambda *_: {"metadata": {"uid": made.uid, "name": "virt-launcher-1"}}
    )
    return made


def console_of(launcher: Launcher, **machines: dict[str, Any]) -> MachineConsole:
    there = SimpleNamespace(
        infra=SimpleNamespace(cluster=launcher),
        place=SimpleNamespace(namespace="ns"),
        instances=lambda: machines,
    )
    return MachineConsole(cast(Existing, there), "w0", 7)


def test_a_console_that_breaks_off_goes_on_and_one_of_another_boot_comes_whole(launcher: Launcher) -> None:
    source, heard = console_of(launcher, w0={}), list[LogLine]()
    launcher.lines = ["one", Unreachable("cut")]
    with pytest.raises(Unreachable):
        source.follow(heard.append)
    launcher.lines = ["two"]
    source.follow(heard.append)
    launcher.uid = "b"
    source.follow(heard.append)
    assert launcher.asked == [7, 0, None]
    assert heard == [LogLine("w0 console", text) for text in ("one", "two", "two")]


def test_a_machine_that_does_not_run_says_nothing(launcher: Launcher) -> None:
    console_of(launcher).follow(lambda _: pytest.fail("there is nothing to be heard"))
    assert launcher.asked == []


def test_lines_are_without_what_moves_a_cursor() -> None:
    assert clean("\x1b[0;32m  OK  \x1b[0m\rStarted\x07 \x1b]0;title\x07x\ty") == "  OK  Started x\ty"


def test_phases_are_followed_by_whole_lines_and_later_phases_from_their_beginning(tmp_path: Path) -> None:
    files, stop, heard = AttemptDir(tmp_path), threading.Event(), list[LogLine]()
    files.logs.mkdir()
    for other in (files.events, files.log("w0-console"), files.log("w0-launcher"), files.tunnels_log):
        other.write_text("not of a phase\n")
    files.log("deploy").write_text("one\ntwo\nthr")
    source = PhaseLogs(files, 1, stop)
    source.last(heard.append)
    with files.log("deploy").open("a") as log:
        log.write("ee\n")
    files.log("upgrade").write_text("begins\n")
    stop.set()
    source.follow(heard.append)
    assert [(line.source, line.text) for line in heard] == [
        ("deploy", "two"),
        ("deploy", "three"),
        ("upgrade", "begins"),
    ]
