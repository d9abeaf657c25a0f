"""A file is whole or it is what it was; a lock has one holder; work folders go however the work ends."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread

import pytest

from harness.files import half_done, hold, if_unlocked, locked, working, write_atomically, write_new


def test_text_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_atomically(file, "ä")
    assert file.read_bytes() == "ä".encode()
    write_atomically(file, b"\x00", durable=True)
    assert file.read_bytes() == b"\x00"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_atomically(tmp_path / "key", "secret", mode=0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    write_atomically(file, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, "new")
    assert file.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_lock_is_seen_by_others_as_long_as_it_is_held(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked(lock), if_unlocked(lock) as free:
        assert not free
    with if_unlocked(lock) as free:
        assert free


def test_who_waits_for_a_lock_is_told_once_and_gets_it(tmp_path: Path) -> None:
    lock, told, order = tmp_path / "lock", Event(), []

    def second() -> None:
        with locked(lock, waiting=told.set):
            order.append("second")

    with locked(lock, waiting=lambda: order.append("never")):
        other = Thread(target=second)
        other.start()
        assert told.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def test_new_files_have_their_folders_and_modes(tmp_path: Path) -> None:
    write_new({tmp_path / "a/b/run.sh": ("true\n", 0o755), tmp_path / "a/c": ("c", 0o644)})
    assert (tmp_path / "a/b/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a/c").read_text(encoding="utf-8") == "c"


def test_if_one_new_file_cannot_be_written_none_is(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        write_new({tmp_path / "a/b": ("new", 0o644), tmp_path / "there": ("new", 0o644)})
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text(encoding="utf-8") == "mine"


def test_the_folder_is_gone_after_an_error_and_what_a_killed_process_left_goes_first(tmp_path: Path) -> None:
    (tmp_path / ".tmp-built-4711").mkdir()
    with pytest.raises(FileNotFoundError):
        _fail(tmp_path)
    assert list(tmp_path.iterdir()) == []


def _fail(root: Path) -> None:
    with working(root, "built") as work:
        work.mkdir()
        assert half_done(root, "built") == [work]
        (work / "made").write_bytes(b"half")
        (work / "none").read_bytes()


def test_an_entry_with_a_longer_name_is_another_one(tmp_path: Path) -> None:
    (tmp_path / ".tmp-built-cloud-4711").mkdir()
    (tmp_path / ".tmp-built-4712").mkdir()
    assert [folder.name for folder in half_done(tmp_path, "built")] == [".tmp-built-4712"]


def test_who_waits_for_an_entry_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    with hold(tmp_path / "cache", "built", lambda: told.append("waiting")):
        pass
    assert told == []
    assert (tmp_path / "cache" / ".lock-built").exists()
