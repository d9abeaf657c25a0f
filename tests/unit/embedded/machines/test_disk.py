"""Finding the root partition, on partition tables written here byte by byte."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

import pytest

from harness.embedded.machines import disk
from harness.errors import InfraError

LINUX = "0fc63daf-8483-4772-8e79-3d69d8477de4"
ROOT = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"
ESP = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
BIOS = "21686148-6449-6e6f-744e-656564454649"
MIB = 1 << 20


def _gpt(path: Path, entries: dict[int, tuple[str, int, int]], *, size: int = 64 * MIB) -> Path:
    """Write a disk with a GPT whose partitions are number -> (type, first MiB, MiB)."""
    table = bytearray(128 * 128)
    for number, (kind, first, length) in entries.items():
        lba, sectors = first * MIB // 512, length * MIB // 512
        entry = uuid.UUID(kind).bytes_le + uuid.uuid4().bytes_le + struct.pack("<QQ", lba, lba + sectors - 1)
        table[(number - 1) * 128 : (number - 1) * 128 + len(entry)] = entry
    header = b"EFI PART" + bytes(64) + struct.pack("<QII", 2, 128, 128)
    with path.open("wb") as handle:
        handle.truncate(size)
        handle.seek(512)
        handle.write(header)
        handle.seek(1024)
        handle.write(table)
    return path


def test_the_only_partition_is_the_root(tmp_path: Path) -> None:
    found = disk.root_partition(_gpt(tmp_path / "d", {1: (ROOT, 1, 62)}))
    assert (found.number, found.start, found.size) == (1, MIB, 62 * MIB)


def test_a_cloud_image_has_its_root_first_in_number_and_last_on_disk(tmp_path: Path) -> None:
    found = disk.root_partition(_gpt(tmp_path / "d", {1: (LINUX, 20, 40), 14: (BIOS, 1, 3), 15: (ESP, 4, 16)}))
    assert (found.number, found.start) == (1, 20 * MIB)


def test_a_partition_typed_as_root_wins_over_a_larger_one(tmp_path: Path) -> None:
    found = disk.root_partition(_gpt(tmp_path / "d", {1: (ROOT, 1, 10), 2: (LINUX, 11, 40)}))
    assert found.number == 1


def test_the_largest_linux_partition_wins_over_a_boot_partition(tmp_path: Path) -> None:
    found = disk.root_partition(_gpt(tmp_path / "d", {1: (LINUX, 20, 40), 16: (LINUX, 2, 10)}))
    assert found.number == 1


def test_a_disk_without_a_partition_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(bytes(4096))
    with pytest.raises(InfraError, match="no GPT partition table"):
        disk.root_partition(tmp_path / "d")


def test_a_disk_without_a_linux_partition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="no Linux root partition among its 1 partitions"):
        disk.root_partition(_gpt(tmp_path / "d", {1: (ESP, 1, 20)}))


def test_a_root_that_is_not_ext4_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="is not ext4"):
        disk.grow(_gpt(tmp_path / "d", {1: (ROOT, 1, 62)}))


def test_a_sparse_disk_takes_its_blocks_and_not_its_length(tmp_path: Path) -> None:
    file = tmp_path / "disk.raw"
    file.write_bytes(b"x" * 8192)
    with file.open("r+b") as handle:
        handle.truncate(2**30)
    assert 8192 <= (disk.disk_bytes(file) or 0) < 2**20
    assert disk.disk_bytes(tmp_path / "gone.raw") is None
