"""One file, many writers, some of them killed: nothing is lost but what the killed one was just writing."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import IO

import pytest

from harness.errors import BadInput, InfraError
from harness.history.file import FileStore, content, replace_file
from harness.history.record import to_line
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW

YEAR = [checked(record(night, of=60), {"a: b": "p", "a: c": "f"}, "E  no " * 200) for night in range(60)]
FORK = multiprocessing.get_context("fork")  # a process of the same memory: starts at once


def write(path: Path, prefix: str, count: int, told: int) -> None:
    """Append records one by one, and tell the id of each that is written."""
    store = FileStore(path)
    for number in range(count):
        made = record(number % 300, f"{prefix}-{number}", of=300)
        store.append([made])
        os.write(told, f"{made.id}\n".encode())


def compact(path: Path, told: int) -> None:
    """Compact without end, each time three days more."""
    for days in range(160, 0, -2):
        FileStore(path).compact(days=days, now=NOW)
        os.write(told, b"compacted\n")


@dataclass
class Started:
    """A process that tells line by line what it did."""

    process: ForkProcess
    told: IO[str]

    def rest(self) -> list[str]:
        """Return all further lines, once it has ended."""
        self.process.join()
        return self.told.read().split()


@contextmanager
def started(function: Callable[..., None], *arguments: object) -> Iterator[Started]:
    """Start a process, and end it whatever happens."""
    reading, writing = os.pipe()
    process = FORK.Process(target=function, args=(*arguments, writing))
    process.start()
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as told:
        try:
            yield Started(process, told)
        finally:
            process.kill()
            process.join()


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A file that is not there yet."""
    return FileStore(tmp_path / "kept" / "history.jsonl")


def test_what_was_added_is_there(store: FileStore) -> None:
    assert store.load().records == ()
    assert store.add(YEAR[:3]) == 3
    assert store.add(YEAR[:5]) == 2
    assert store.load().records == tuple(YEAR[:5])
    assert store.load().duplicates == 0


def test_a_torn_end_is_left_behind(store: FileStore) -> None:
    store.append(YEAR[:2])
    with store.path.open("ab") as file:
        file.write(to_line(YEAR[2])[:-30])
    store.append(YEAR[3:4])
    found = store.load()
    assert found.records == (*YEAR[:2], YEAR[3])
    assert [s.line for s in found.skipped] == [3]


def test_writers_side_by_side_and_a_killed_one(store: FileStore) -> None:
    with started(write, store.path, "a", 40) as one, started(write, store.path, "b", 40) as other:
        with started(write, store.path, "c", 100_000) as doomed:
            written = [doomed.told.readline().strip() for _ in range(15)]
            doomed.process.kill()
            written += doomed.rest()
        whole = one.rest() + other.rest()
    found = store.load()
    assert len(whole) == 80
    assert {r.id for r in found.records} >= {*whole, *written}
    assert len(found.skipped) <= 1


def test_a_compaction_that_is_killed_loses_nothing(store: FileStore) -> None:
    store.append([checked(record(n, of=150), {"a: b": "p"}) for n in range(150)])
    before = {r.id for r in store.load().records}
    for turn in range(3):
        with (
            started(compact, store.path) as doomed,
            started(write, store.path, f"w{turn}", 12) as writer,
        ):
            doomed.told.readline()
            before |= set(writer.rest())
            doomed.process.kill()
        found = store.load()
        assert {r.id for r in found.records} == before
        assert found.skipped == ()
    assert any(r.forgotten for r in found.records)


def test_compacting_drops_old_details_only(store: FileStore) -> None:
    store.append(YEAR)
    size = store.path.stat().st_size
    assert store.compact(days=30, now=NOW) == 30
    assert store.compact(days=30, now=NOW) == 0
    assert [r.forgotten for r in store.load().records] == [True] * 30 + [False] * 30
    assert store.path.stat().st_size < size * 0.75


def test_compacting_nothing_is_nothing(store: FileStore) -> None:
    assert store.compact(days=30, now=NOW) == 0
    assert not store.path.exists()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the history"):
        content(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write the history"):
        FileStore(tmp_path / "file" / "history.jsonl").append(YEAR[:1])


def test_a_full_disk_leaves_the_file_as_it_was(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(YEAR[:2])
    before = store.path.read_bytes()
    write, calls = os.write, 0

    def half(handle: int, text: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(28, "No space left on device")
        return write(handle, text[: len(text) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(InfraError, match="No space left"):
        store.append(YEAR[2:3])
    monkeypatch.undo()
    assert store.path.read_bytes() == before


def test_a_file_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"before")

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(InfraError):
        replace_file(path, b"after")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("history.jsonl", b"before")]


def test_a_moment_decides_what_is_old(store: FileStore) -> None:
    store.append(YEAR[-1:])
    assert store.compact(days=1, now=NOW) == 0
    assert store.compact(days=1, now=NOW + timedelta(days=2)) == 1
