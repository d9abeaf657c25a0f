"""A raw disk from a root directory: a GPT, an ext4 root file system, and the boot loaders of a bootable image.

Nothing is mounted. All ids follow from an identity.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from harness import proc

PACK_LIMIT = 600.0  # twenty times as long as packing usually takes: for a slow disk
TABLE_LIMIT = 60.0  # a partition table, written at once
MIB = 1 << 20
SECTOR = 512
NAMESPACE = uuid.UUID("0c2a8a5e-3b0e-4d53-9d0c-6a3c8d1f7b42")
ROOT_TYPE = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"  # Discoverable Partitions Specification: root, x86-64
ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
BIOS_TYPE = "21686148-6449-6E6F-744E-656564454649"  # GRUB manual, "BIOS installation"
CORE_START, ESP_START = MIB, 2 * MIB
ESP_MIB = 32  # shim, GRUB and room; FAT16 wants 16 MiB at least
# Boot loaders lie before the root, which is the last partition and so can grow; it is number 1 as in cloud images.
BOOTABLE_ROOT_START = ESP_START + ESP_MIB * MIB
# GRUB of Debian 12 reads no file system with these, which mke2fs of Debian 13 makes by default.
UNKNOWN_TO_GRUB = "^metadata_csum_seed,^orphan_file"


@dataclass(frozen=True)
class DiskIds:
    """The ids of a disk, its partitions and its file systems; `hash_seed` of ext4's directories."""

    disk: uuid.UUID
    root: uuid.UUID
    file_system: uuid.UUID
    hash_seed: uuid.UUID
    core: uuid.UUID
    esp: uuid.UUID

    @staticmethod
    def of(identity: str) -> DiskIds:
        """Return the ids that follow from an identity, such as a recipe's key."""
        return DiskIds(*(uuid.uuid5(NAMESPACE, f"{identity} {number}") for number in range(6)))


@dataclass(frozen=True)
class BootLoader:
    """What goes outside of the root file system: BIOS boot code, GRUB's core for it, an EFI system partition."""

    boot_code: bytes
    core: bytes
    esp: Path


def raw_disk(root: Path, raw: Path, *, size_gib: int, ids: DiskIds, log: Path, boot: BootLoader | None = None) -> None:
    """Pack a root directory as the last partition of a raw disk, below the boot loaders if there are any.

    Raises:
        CommandFailed: the root does not fit, or the disk of this host is full.
    """
    size = size_gib * 1024 * MIB
    with raw.open("wb") as handle:
        handle.truncate(size)
    start = BOOTABLE_ROOT_START if boot else MIB
    proc.run(["sfdisk", "--quiet", raw], timeout=TABLE_LIMIT, log=log, stdin=_table(ids, start, bootable=bool(boot)))
    # The last MiB is the table's copy's.
    blocks = (size - start - MIB) // 1024
    features = f"offset={start},assume_storage_prezeroed=1,hash_seed={ids.hash_seed}"
    options = ["-q", "-t", "ext4", "-L", "root", "-m", "0", "-U", str(ids.file_system), "-E", features]
    options += ["-O", UNKNOWN_TO_GRUB] if boot else []
    proc.run(["mke2fs", *options, "-d", root, raw, f"{blocks}k"], timeout=PACK_LIMIT, log=log)
    if boot:
        _write(raw, boot)


def _table(ids: DiskIds, start: int, *, bootable: bool) -> str:
    """Return the partition table in sfdisk's words."""
    lines = ["label: gpt", f"label-id: {ids.disk}"]
    if bootable:
        core, esp = CORE_START // SECTOR, ESP_START // SECTOR
        lines.append(f"14: start={core}, size={esp - core}, type={BIOS_TYPE}, uuid={ids.core}, name=bios")
        lines.append(f"15: start={esp}, size={start // SECTOR - esp}, type={ESP_TYPE}, uuid={ids.esp}, name=efi")
    lines.append(f"1: start={start // SECTOR}, type={ROOT_TYPE}, uuid={ids.root}, name=root")
    return "\n".join(lines) + "\n"


def _write(raw: Path, boot: BootLoader) -> None:
    with raw.open("r+b") as handle:
        for position, content in ((0, boot.boot_code), (CORE_START, boot.core), (ESP_START, boot.esp.read_bytes())):
            handle.seek(position)
            handle.write(content)
