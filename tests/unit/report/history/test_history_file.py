"""One file, many writers, some of them killed: nothing is lost but what the killed one was just writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from harness.errors import BadInput, InfraError
from harness.report.history.file import FileStore, content, replace_file
from harness.report.history.record import to_line
from tests.unit.report.history.make import checked, record
from tests.unit.report.history.synthetic import NOW

YEAR = [checked(record(night, of=60), {"a: b": "p", "a: c": "f"}, "E  no " * 200) for night in range(60)]
WRITER = """
import sys
from pathlib import Path
from harness.report.history.file import FileStore
from tests.unit.report.history.make import record
store = FileStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    made = record(number % 300, f"{sys.argv[2]}-{number}", of=300)
    store.append([made])
    print(made.id, flush=True)
"""
COMPACTER = """
import sys
from pathlib import Path
from harness.report.history.file import FileStore
from tests.unit.report.history.synthetic import NOW
store = FileStore(Path(sys.argv[1]))
days = 400
while True:
    print(store.compact(days=days, now=NOW), flush=True)
    days -= 3
"""


@contextmanager
def started(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start Python with a piece of code, and end it whatever happens."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4]
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


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
    with started(WRITER, str(store.path), "a", "40") as one, started(WRITER, str(store.path), "b", "40") as other:
        with started(WRITER, str(store.path), "c", "100000") as doomed:
            assert doomed.stdout is not None
            written = [doomed.stdout.readline().strip() for _ in range(15)]
            doomed.send_signal(signal.SIGKILL)
            written += doomed.stdout.read().split()
        assert one.stdout is not None
        assert other.stdout is not None
        whole = one.stdout.read().split() + other.stdout.read().split()
    found = store.load()
    ids = {r.id for r in found.records}
    assert len(whole) == 80
    assert ids >= set(whole)
    # the last line of the killed one may be cut off in the pipe, but not in the file
    assert ids >= set(written[:-1])
    assert len(found.skipped) <= 1


def test_a_compaction_that_is_killed_loses_nothing(store: FileStore) -> None:
    store.append([checked(record(n, of=365), {"a: b": "p"}) for n in range(365)])
    before = {r.id for r in store.load().records}
    for _ in range(4):
        with started(COMPACTER, str(store.path)) as doomed, started(WRITER, str(store.path), f"w{_}", "12") as writer:
            assert doomed.stdout is not None
            assert writer.stdout is not None
            doomed.stdout.readline()
            before |= set(writer.stdout.read().split())
            os.kill(doomed.pid, signal.SIGKILL)
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
    with pytest.raises(InfraError, match="cannot write the history"):
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
