"""Which Go builds, and Go's caches, cut back after builds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import go_toolchain


@pytest.mark.parametrize(
    ("version", "floor", "expected"),
    [("1.26.8", "1.26.0", False), ("1.9", "1.26", True), ("1.26", "1.26.0", False), ("1.24.9", "1.26.0", True)],
)
def test_versions_are_numbers(version: str, floor: str, expected: bool) -> None:
    assert go_toolchain.older(version, floor) is expected


def go(folder: Path, version: str) -> Path:
    path = folder / "go"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho go{version}\n")
    path.chmod(0o755)
    return path


def test_the_first_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path / "old", "1.19.8")
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setattr(go_toolchain, "INSTALLED", go(tmp_path / "new", "1.26.8"))
    assert go_toolchain.find_go("1.26.0") == go_toolchain.Go(tmp_path / "new" / "go", "1.26.8")
    assert go_toolchain.find_go("1.18").version == "1.19.8"


def test_a_toolchain_in_the_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(go_toolchain, "INSTALLED", tmp_path / "none")
    cached = go(tmp_path / "vmatrix" / "go" / "toolchain" / "1.27.3" / "go" / "bin", "1.27.3")
    assert go_toolchain.find_go("1.26.0").path == cached


def test_builds_never_switch_toolchain_and_use_one_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    env = go_toolchain.Go(Path("go"), "1.26.8").env(cgo=True)
    assert env["GOTOOLCHAIN"] == "local"
    assert env["CGO_ENABLED"] == "1"
    assert env["GOCACHE"] == str(tmp_path / "vmatrix" / "go" / "build")


KIB = 1 << 10


@pytest.fixture
def go_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder with 4 compiled packages of 512 KiB and an unpacked module that is read-only, all just built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with go_toolchain.building():
        pass
    folder = go_toolchain.cache_folder()
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


def test_the_newest_packages_and_what_was_downloaded_stay(go_caches: Path) -> None:
    assert go_toolchain.trim_caches(1) == 2 * 512 * KIB + KIB
    assert left(go_caches) == ["2-d", "3-d", "lock", "one.zip", "trim.txt"]


def test_what_is_small_stays(go_caches: Path) -> None:
    assert go_toolchain.trim_caches(2) == KIB
    assert len(list((go_caches / "build").glob("0?/*"))) == 4


def test_nothing_is_done_while_somebody_builds(go_caches: Path) -> None:
    before = left(go_caches)
    with go_toolchain.building():
        assert go_toolchain.trim_caches(0, always=True) == 0
    assert left(go_caches) == before


def test_it_is_done_once_after_a_build(go_caches: Path) -> None:
    assert go_toolchain.trim_caches(1) > 0
    (go_caches / "mod" / "example.com").mkdir()
    assert go_toolchain.trim_caches(0) == 0
    assert go_toolchain.trim_caches(0, always=True) == 2 * 512 * KIB


def test_two_may_build_at_once(go_caches: Path) -> None:
    with go_toolchain.building(), go_toolchain.building():
        assert go_toolchain.trim_caches(0) == 0


def test_there_may_be_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert go_toolchain.trim_caches(always=True) == 0
    assert not list(tmp_path.iterdir())


def test_what_a_trim_that_was_ended_had_put_aside_is_removed_by_the_next(
    go_caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", ended_at(go_toolchain.ASIDE, shutil.rmtree))
        with pytest.raises(KeyboardInterrupt):
            go_toolchain.trim_caches(2)
    assert [path.name for path in (go_caches / "mod").iterdir()] == ["cache"]
    assert "a.go" in left(go_caches)
    assert go_toolchain.trim_caches(2) == KIB
    assert "a.go" not in left(go_caches)
    assert not list(go_caches.glob(f"{go_toolchain.ASIDE}*"))


def ended_at(prefix: str, remove: Callable[..., None]) -> Callable[..., None]:
    """Return what removes folders as before, and is interrupted at one of a name."""

    def removing(path: Path, *, ignore_errors: bool = False) -> None:
        if path.name.startswith(prefix):
            raise KeyboardInterrupt
        remove(path, ignore_errors=ignore_errors)

    return removing
