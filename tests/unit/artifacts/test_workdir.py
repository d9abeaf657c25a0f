"""The folders in which entries are made: gone however the work ends, and each entry's are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.workdir import half_done, hold, working


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
