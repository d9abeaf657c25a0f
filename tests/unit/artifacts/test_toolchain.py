"""Which Go builds: versions are compared as numbers, and what is too old is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts import toolchain


@pytest.mark.parametrize(
    ("version", "floor", "expected"),
    [("1.26.8", "1.26.0", False), ("1.9", "1.26", True), ("1.26", "1.26.0", False), ("1.24.9", "1.26.0", True)],
)
def test_versions_are_numbers(version: str, floor: str, expected: bool) -> None:
    assert toolchain.older(version, floor) is expected


def go(folder: Path, version: str) -> Path:
    path = folder / "go"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho go{version}\n")
    path.chmod(0o755)
    return path


def test_the_first_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path / "old", "1.19.8")
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setattr(toolchain, "INSTALLED", go(tmp_path / "new", "1.26.8"))
    assert toolchain.find("1.26.0") == toolchain.Go(tmp_path / "new" / "go", "1.26.8")
    assert toolchain.find("1.18").version == "1.19.8"


def test_a_toolchain_in_the_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "INSTALLED", tmp_path / "none")
    cached = go(tmp_path / "vmatrix" / "go" / "toolchain" / "1.27.3" / "go" / "bin", "1.27.3")
    assert toolchain.find("1.26.0").path == cached


def test_builds_never_switch_toolchain_and_use_one_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    env = toolchain.Go(Path("go"), "1.26.8").env(cgo=True)
    assert env["GOTOOLCHAIN"] == "local"
    assert env["CGO_ENABLED"] == "1"
    assert env["GOCACHE"] == str(tmp_path / "vmatrix" / "go" / "build")
