"""Archives: what is in them, that anybody can unpack them, and that they are the same bytes each time."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts.product.packing import BLOCK, pack

# of an archive with bin/one ("one") alone: another value means that products find other checksums after an update
KNOWN = "66fc4f10d6afe0998ea1"


@pytest.fixture
def members(tmp_path: Path) -> dict[str, Path]:
    files = {"one": b"one", "large": os.urandom(3 * BLOCK + 7)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return {"v1/bin/one": tmp_path / "one", "v1/large": tmp_path / "large"}


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar"])
def test_tar_unpacks_it_with_its_folders_and_modes(members: dict[str, Path], tmp_path: Path, name: str) -> None:
    pack(tmp_path / name, members)
    (tmp_path / "out").mkdir()
    proc.run(["tar", "-xf", tmp_path / name, "-C", tmp_path / "out", "--strip-components=1"], timeout=10)
    assert (tmp_path / "out" / "bin" / "one").read_bytes() == b"one"
    assert (tmp_path / "out" / "large").read_bytes() == (tmp_path / "large").read_bytes()
    assert (tmp_path / "out" / "large").stat().st_mode & 0o777 == 0o755


def test_it_is_the_same_whenever_and_in_whatever_order_it_is_made(members: dict[str, Path], tmp_path: Path) -> None:
    pack(tmp_path / "first.tar.gz", members)
    for path in members.values():
        os.utime(path, (0, 0))
    pack(tmp_path / "second.tar.gz", dict(reversed(members.items())))
    assert (tmp_path / "first.tar.gz").read_bytes() == (tmp_path / "second.tar.gz").read_bytes()


def test_the_bytes_of_an_archive_are_known(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"one")
    pack(tmp_path / "one.tar.gz", {"bin/one": tmp_path / "one"})
    assert hashlib.sha256((tmp_path / "one.tar.gz").read_bytes()).hexdigest().startswith(KNOWN)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_gzip_accepts_every_length(tmp_path: Path, size: int) -> None:
    (tmp_path / "f").write_bytes(b"x" * size)
    pack(tmp_path / "f.tar.gz", {"f": tmp_path / "f"})
    proc.run(["gzip", "--test", tmp_path / "f.tar.gz"], timeout=10)
    with gzip.open(tmp_path / "f.tar.gz") as raw, tarfile.open(fileobj=raw) as tar:
        assert [(entry.name, entry.size, entry.mtime, entry.uname) for entry in tar] == [("f", size, 0, "")]
