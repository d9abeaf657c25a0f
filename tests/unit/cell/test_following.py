"""A cell's logs are followed until it ends: every source, new machines too, and what cannot be read is said once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell import following
from harness.cell.existing import Existing
from harness.cell.following import Followed, LogWish, last_lines
from harness.cell.log_sources import LogLine, LogSource, Put
from harness.errors import InfraError
from harness.kube.client import Unreachable
from harness.machines.access import SSH_FAILED
from harness.proc import CommandFailed, Completed


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

        monkeypatch.setattr(following, "find", find)
        monkeypatch.setattr(following, "sources_of", lambda *_: cast(Mapping[str, LogSource], self.now))
        monkeypatch.setattr(following, "LOOK_SECONDS", 0.1)
        monkeypatch.setattr(following, "AGAIN_SECONDS", 0.01)


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
    monkeypatch.setattr(following, "PATIENCE_SECONDS", 0.0)
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
