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


def _write(root: Path) -> None:
    disk.write(root, instance_id="i-1", hostname="cp-0", user_data="#cloud-config\n", resolver="10.213.1.254")


def test_the_seed_holds_user_data_and_a_fresh_instance(tmp_path: Path) -> None:
    _write(tmp_path)
    folder = tmp_path / disk.SEED
    assert (folder / "user-data").read_text() == "#cloud-config\n"
    assert (folder / "user-data").stat().st_mode & 0o777 == 0o600
    assert (folder / "meta-data").read_text() == "instance-id: i-1\nlocal-hostname: cp-0\n"
    assert (folder / "network-config").read_text() == "config: disabled\n"


def test_the_resolver_is_a_file_even_where_the_image_has_a_link_to_a_stub(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    _write(tmp_path)
    assert not (tmp_path / "etc/resolv.conf").is_symlink()
    assert (tmp_path / "etc/resolv.conf").read_text() == "nameserver 10.213.1.254\n"


def test_the_machine_id_is_empty(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("0123\n")
    _write(tmp_path)
    assert (tmp_path / "etc/machine-id").read_text() == ""


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "usr/etc").mkdir(parents=True)
    (tmp_path / "etc").symlink_to("usr/etc")
    _write(tmp_path)
    assert (tmp_path / "usr/etc/hostname").read_text() == "cp-0\n"


def test_a_link_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "etc").symlink_to(outside)
    with pytest.raises(InfraError, match="leads out of its root"):
        _write(root)
    assert list(outside.iterdir()) == []


def test_a_v1_host_makes_the_machine_open_its_control_groups_at_boot(tmp_path: Path) -> None:
    _write(tmp_path)
    wanted = tmp_path / "etc/systemd/system/sysinit.target.wants" / disk.OPEN_CGROUPS_UNIT
    assert not wanted.is_symlink()
    disk.write(tmp_path, instance_id="i-1", hostname="cp-0", user_data="", resolver="10.213.1.254", open_cgroups=True)
    assert "remount,bind,rw" in wanted.read_text()
