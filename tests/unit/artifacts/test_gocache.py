"""Go's caches after a build: cut back to the newest, never under somebody who builds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import gocache

KIB = 1 << 10


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder with 4 compiled packages of 512 KiB and an unpacked module that is read-only, all just built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with gocache.building():
        pass
    folder = gocache.folder()
    for number in range(4):
        path = folder / "build" / f"0{number}" / f"{number}-d"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 512 * KIB)
        os.utime(path, (1000 + number, 1000 + number))
    (folder / "build" / "trim.txt").write_text("of Go")
    source = folder / "mod" / "example.com" / "one@v1" / "a.go"
    packed = folder / "mod" / "cache" / "download" / "one.zip"
    for path in (source, packed):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"y" * KIB)
    source.parent.chmod(0o555)
    return folder


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_newest_packages_and_what_was_downloaded_stay(go: Path) -> None:
    assert gocache.trim(1) == 2 * 512 * KIB + KIB
    assert left(go) == ["2-d", "3-d", "lock", "one.zip", "trim.txt"]


def test_what_is_small_stays(go: Path) -> None:
    assert gocache.trim(2) == KIB
    assert len(list((go / "build").glob("0?/*"))) == 4


def test_nothing_is_done_while_somebody_builds(go: Path) -> None:
    before = left(go)
    with gocache.building():
        assert gocache.trim(0, always=True) == 0
    assert left(go) == before


def test_it_is_done_once_after_a_build(go: Path) -> None:
    assert gocache.trim(1) > 0
    (go / "mod" / "example.com").mkdir()
    assert gocache.trim(0) == 0
    assert gocache.trim(0, always=True) == 2 * 512 * KIB


def test_two_may_build_at_once(go: Path) -> None:
    with gocache.building(), gocache.building():
        assert gocache.trim(0) == 0


def test_there_may_be_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert gocache.trim(always=True) == 0
    assert not list(tmp_path.iterdir())


def test_what_a_trim_that_was_ended_had_put_aside_is_removed_by_the_next(
    go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", ended_at(gocache.ASIDE, shutil.rmtree))
        with pytest.raises(KeyboardInterrupt):
            gocache.trim(2)
    assert [path.name for path in (go / "mod").iterdir()] == ["cache"]
    assert "a.go" in left(go)
    assert gocache.trim(2) == KIB
    assert "a.go" not in left(go)
    assert not list(go.glob(f"{gocache.ASIDE}*"))


def ended_at(prefix: str, remove: Callable[..., None]) -> Callable[..., None]:
    """Return what removes folders as before, and is interrupted at one of a name."""

    def removing(path: Path, *, ignore_errors: bool = False) -> None:
        if path.name.startswith(prefix):
            raise KeyboardInterrupt
        remove(path, ignore_errors=ignore_errors)

    return removing
