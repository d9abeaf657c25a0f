"""A cell's logs are followed until it ends: every source, new machines too, and what cannot be read is said once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import proc
from harness.cell import logs
from harness.cell.existing import Existing
from harness.cell.logs import (
    Followed,
    Journal,
    LogLine,
    LogSource,
    LogWish,
    MachineConsole,
    PhaseLogs,
    Put,
    clean,
    last_lines,
)
from harness.errors import BadInput, InfraError
from harness.kube.client import Unreachable
from harness.machines.reach.ssh import SSH_FAILED
from harness.model import Machine, PlannedMachine
from harness.proc import CommandFailed, Completed
from harness.rundir import AttemptDir


class Told:
    """A source that says lines, again and again, or fails."""

    def __init__(self, name: str, *said: str | Exception) -> None:
        self.name = name
        self.said = list(said)
        self.times = 0

    def last(self, put: Put) -> None:
        """Say all."""
        for one in self.said:
            if isinstance(one, Exception):
                raise one
            put(LogLine(self.name, one))

    def follow(self, put: Put) -> None:
        """Say all the first time; after that fail, if it fails."""
        self.times += 1
        if self.times == 1 or any(isinstance(one, Exception) for one in self.said):
            self.last(put)


class World:
    """A cell whose existence is played: what is there at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: list[Mapping[str, Told] | Exception | None]) -> None:
        self.looks = looks
        self.now: Mapping[str, Told] = {}
        cell = SimpleNamespace(attempt=1)
        self.there = cast(
            Existing,
            SimpleNamespace(run="r", cell="c", number=1, infra=SimpleNamespace(cluster=None, namespace=None)),
        )

        def find(*_: Any) -> list[SimpleNamespace]:
            look = self.looks.pop(0)
            if isinstance(look, Exception):
                raise look
            self.now = look if look is not None else {}
            return [cell] if look is not None else []

        monkeypatch.setattr(logs, "find", find)
        monkeypatch.setattr(logs, "sources_of", lambda *_: cast(Mapping[str, LogSource], self.now))
        monkeypatch.setattr(logs, "CELL_LOOK_SECONDS", 0.1)
        monkeypatch.setattr(logs, "AGAIN_SECONDS", 0.01)


def followed(world: World, note: Callable[[str], None] = lambda _: None) -> list[tuple[str, str]]:
    lines = Followed(world.there, LogWish(None, (), 0), note).lines()
    return [(line.source, line.text) for line in lines]


def test_it_ends_with_the_cell_and_reads_machines_that_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = Told("w0 journal", "a"), Told("w1 journal", "b")
    world = World(monkeypatch, [{"w0": first}, {"w0": first, "w1": later}, None])
    assert sorted(followed(world)) == [("w0 journal", "a"), ("w1 journal", "b")]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("log of")]


def test_what_cannot_be_read_is_said_once_by_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Completed(("ssh",), SSH_FAILED, "", "Warning: x\nConnection refused\n", 0.1)
    world = World(monkeypatch, [{"w0 journal": Told("w0", CommandFailed(done, why="ended"))}] * 3 + [None])
    notes: list[str] = []
    assert followed(world, notes.append) == []
    assert notes == ["w0 journal: Connection refused"]


def test_an_infra_cluster_that_does_not_answer_for_a_moment_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Told("w0 journal", "a")
    world = World(monkeypatch, [{"w0": source}, Unreachable("cut"), {"w0": source}, None])
    assert followed(world) == [("w0 journal", "a")]


def test_one_that_does_not_come_back_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(Unreachable, match="cut"):
        followed(World(monkeypatch, [{}, Unreachable("cut")]))


def test_a_refusal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InfraError, match="forbidden"):
        followed(World(monkeypatch, [InfraError("forbidden")]))


def test_last_lines_come_from_each_source_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, [])
    world.now = {"w0 console": Told("w0 console", "a"), "w0 journal": Told("w0 journal", InfraError("no key"))}
    notes: list[str] = []
    found = list(last_lines(world.there, LogWish(None, (), 9), notes.append))
    assert (found, notes) == ([LogLine("w0 console", "a")], ["w0 journal: no key"])


MACHINE = Machine(PlannedMachine("w0", (), 0, 0, 0, ""), "10.0.0.1", 22, "me")


@pytest.fixture
def there(tmp_path: Path) -> Existing:
    files = AttemptDir(tmp_path)
    made = SimpleNamespace(
        files=files, file=lambda path, _: path, instances=lambda: {"w0": {}}, machine=lambda _: MACHINE
    )
    return cast(Existing, made)


def test_a_journal_goes_on_where_it_was(there: Existing, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    said = iter(
        (
            ["1700000000.000001 w0 systemd[1]: one", "1700000001.5 w0 sshd[2]: two"],
            ["1700000001.5 w0 sshd[2]: two", "1700000001.5 w0 sshd[2]: also then", "1700000002.0 w0 x[3]: three"],
        )
    )

    def stream(argv: Sequence[str]) -> Iterator[str]:
        asked.append(argv[-1])
        yield from next(said)

    monkeypatch.setattr(proc, "stream", stream)
    source, heard = Journal(there, "w0", 5), list[LogLine]()
    source.follow(heard.append)
    source.follow(heard.append)
    assert asked[0].endswith("--follow --lines 5")
    assert asked[1].endswith("--follow --no-tail --since @1700000001.5")
    assert [line.text for line in heard] == [
        "2023-11-14T22:13:20Z w0 systemd[1]: one",
        "2023-11-14T22:13:21Z w0 sshd[2]: two",
        "2023-11-14T22:13:21Z w0 sshd[2]: also then",
        "2023-11-14T22:13:22Z w0 x[3]: three",
    ]
    assert {line.source for line in heard} == {"w0 journal"}


def test_words_of_journalctl_itself_are_handed_on(there: Existing, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["-- Boot 1 --", "1700000000.0 w0 a[1]: one", "-- Boot 2 --", "1700000000.0 w0 a[1]: one"]
    monkeypatch.setattr(proc, "stream", lambda _: iter(lines))
    heard: list[LogLine] = []
    Journal(there, "w0", 5).follow(heard.append)
    assert [line.text for line in heard] == ["-- Boot 1 --", "2023-11-14T22:13:20Z w0 a[1]: one", "-- Boot 2 --"]


def test_without_the_key_it_is_said(there: Existing, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(path: Path, what: str) -> Path:
        raise BadInput(f"{what} {path} is not on this machine")

    monkeypatch.setattr(there, "file", no_file)
    with pytest.raises(BadInput, match=r"private key .* is not on this machine"):
        Journal(there, "w0", 5).follow(lambda _: None)


def test_a_machine_that_is_gone_says_nothing(there: Existing) -> None:
    Journal(there, "w9", 5).follow(lambda _: pytest.fail("there is nothing to be heard"))


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
    monkeypatch.setattr(logs, "launcher_pod", lambda *_: {"metadata": {"uid": made.uid, "name": "virt-launcher-1"}})
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
