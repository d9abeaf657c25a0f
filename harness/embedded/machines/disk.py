"""A machine's disk: a copy of its claim's image, mounted, and its cloud-init seed.

Covers GPT disks with an ext4 root, which the images built here and the official Debian and Ubuntu cloud images are.
Partition types are those of the Discoverable Partitions Specification.

Every path is resolved inside the root: a link in an image must not lead a writer that is root out of it.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import InfraError

SECTOR = 512
BLOCK = 512  # bytes of a block as stat(2) counts them
MIB = 1 << 20
ROOT_TYPES = frozenset(
    {
        uuid.UUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709"),  # root, x86-64
        uuid.UUID("b921b045-1df0-41c3-af44-4c6f280d3fae"),  # root, arm64
    }
)
LINUX_TYPE = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
# Machines live as long as their host at most, so barriers would only protect what nobody can come back to.
MOUNT_OPTIONS = "loop,rw,noatime,nobarrier,noinit_itable"
TABLE_SECONDS = 30.0  # against hanging: sfdisk writes a partition table
RESIZE_SECONDS = 120.0  # resize2fs, and a check of a file system that was in use
MOUNT_SECONDS = 60.0  # against hanging: ext4 replays its journal
# Checks the file system first only when it was in use since its last check. e2fsck ends with 1 when it corrected
# something.
RESIZE = """
device=$(losetup --find --show --offset "$1" --sizelimit "$2" "$3") || exit
trap 'losetup --detach "$device"' EXIT
resize2fs "$device" >&2 && exit
e2fsck -f -p "$device" >&2
[ $? -le 1 ] && resize2fs "$device" >&2
"""


@dataclass(frozen=True)
class Partition:
    """One partition: number (from 1), type, start and size in bytes."""

    number: int
    type: uuid.UUID
    start: int
    size: int


def partitions(disk: Path) -> list[Partition]:
    """Read the partitions of a GPT disk.

    Raises:
        InfraError: the file has no GPT.
    """
    with disk.open("rb") as handle:
        handle.seek(SECTOR)
        header = handle.read(92)
        if header[:8] != b"EFI PART":
            raise InfraError(
                f"disk {disk.name} has no GPT partition table",
                hint="use a partitioned cloud image (vmatrix image list)",
                paths=[disk],
            )
        table, count, width = struct.unpack_from("<QII", header, 72)
        handle.seek(table * SECTOR)
        raw = handle.read(count * width)
    found = []
    for number in range(count):
        entry = raw[number * width : number * width + 48]
        kind = uuid.UUID(bytes_le=entry[:16])
        first, last = struct.unpack_from("<QQ", entry, 32)
        if kind.int:
            found.append(Partition(number + 1, kind, first * SECTOR, (last - first + 1) * SECTOR))
    return found


def root_partition(disk: Path) -> Partition:
    """Return the partition that holds the root file system: the largest typed as root, else the largest Linux one.

    Raises:
        InfraError: there is none.
    """
    table = partitions(disk)
    candidates = [p for p in table if p.type in ROOT_TYPES] or [p for p in table if p.type == LINUX_TYPE]
    if not candidates:
        raise InfraError(
            f"disk {disk.name} has no Linux root partition among its {len(table)} partitions",
            hint="use an image whose root partition has a Linux type GUID",
            paths=[disk],
        )
    return max(candidates, key=lambda p: p.size)


def _is_ext4(disk: Path, partition: Partition) -> bool:
    with disk.open("rb") as handle:
        handle.seek(partition.start + 1024 + 56)
        return handle.read(2) == b"\x53\xef"


def grow(disk: Path) -> Partition:
    """Grow the root partition and its file system to the disk's size, when the root is the last partition.

    The file system is grown while it is not mounted: the kernel wants CAP_SYS_RESOURCE for doing it online.

    Returns: the root partition as it is now.
    """
    root = root_partition(disk)
    if not _is_ext4(disk, root):
        raise InfraError(f"the root file system of disk {disk.name} is not ext4", paths=[disk])
    last = max(partitions(disk), key=lambda p: p.start)
    free = disk.stat().st_size - (root.start + root.size)
    # Less than 2 MiB is the alignment and the backup table.
    if last != root or free < 2 * MIB:
        return root
    proc.run(["sfdisk", "--quiet", "--no-reread", "--relocate", "gpt-bak-std", disk], timeout=TABLE_SECONDS)
    proc.run(["sfdisk", "--quiet", "--no-reread", "-N", str(root.number), disk], timeout=TABLE_SECONDS, stdin=",+\n")
    grown = root_partition(disk)
    # Through a loop device, because resize2fs cuts a plain file to the size of the file system in it.
    script: list[str | Path] = ["sh", "-c", RESIZE, "sh", str(grown.start), str(grown.size), disk]
    proc.run(script, timeout=RESIZE_SECONDS)
    return grown


def mount(disk: Path, partition: Partition, where: Path) -> None:
    """Mount a partition through a loop device that detaches itself when it is unmounted."""
    options = f"{MOUNT_OPTIONS},offset={partition.start},sizelimit={partition.size}"
    proc.run(["mount", "-t", "ext4", "-o", options, disk, where], timeout=MOUNT_SECONDS)


def mounts_below(directory: Path) -> list[Path]:
    """Return what is mounted at or below a directory, deepest first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    mounted = (Path(line.split(" ")[4].encode().decode("unicode_escape")) for line in lines)
    return sorted((p for p in mounted if p.is_relative_to(directory)), key=lambda p: len(p.parts), reverse=True)


def loop_devices_below(directory: Path) -> list[Path]:
    """Return the loop devices whose backing file is (or was, when it is deleted) below a directory."""
    devices = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            file = Path(backing.read_text(encoding="utf-8").rstrip("\n").removesuffix(" (deleted)"))
        except OSError:
            continue  # detached meanwhile
        if directory in file.parents:
            devices.append(Path("/dev") / backing.parts[3])
    return devices


def disk_bytes(file: Path) -> int | None:
    """Return what a sparse disk file takes of its file system; None without the file."""
    try:
        return file.stat().st_blocks * BLOCK
    except OSError:
        return None


SEED = Path("var/lib/cloud/seed/nocloud")
UNITS = Path("etc/systemd/system")
NETWORK_CONFIG = "config: disabled\n"
# These wait for hardware or a network manager that a container does not have, or do what is done from outside.
MASKED_UNITS = (
    "systemd-networkd-wait-online.service",
    "NetworkManager-wait-online.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-resolved.service",
    "networking.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-udev-settle.service",
    "systemd-growfs-root.service",
    "console-getty.service",
    "snapd.service",
    "snapd.seeded.service",
    "snapd.socket",
)
# On cgroup v1 nspawn leaves every controller but systemd's own read-only. The machine opens them itself, at every boot.
OPEN_CGROUPS_UNIT = "open-control-groups.service"
OPEN_CGROUPS = """[Unit]
Description=Make the control groups writable
DefaultDependencies=no
Before=sysinit.target
ConditionPathIsReadWrite=!/sys/fs/cgroup/memory

[Service]
Type=oneshot
ExecStart=/bin/sh -ec 'for tree in /sys/fs/cgroup/*/; do mount -o remount,bind,rw "$tree"; done'
"""


def place(root: Path, path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file inside a mounted root file system, in the place of whatever was there.

    Raises:
        InfraError: a link in the image leads out of the root.
    """
    target = _inside(root, path)
    target.unlink(missing_ok=True)
    target.write_text(text, encoding="utf-8")
    target.chmod(mode)


def _inside(root: Path, path: Path) -> Path:
    folder = (root / path.parent).resolve()
    if not folder.is_relative_to(root.resolve()):
        raise InfraError(f"the image's /{path.parent} is a link that leads out of its root file system")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / path.name


def _link(root: Path, unit: str, target: str) -> None:
    link = _inside(root, UNITS / unit)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def write(
    root: Path, *, instance_id: str, hostname: str, user_data: str, resolver: str, open_cgroups: bool = False
) -> None:
    """Prepare a root file system for its first boot as a machine.

    Args:
        instance_id: cloud-init's; a new one makes cloud-init run its once-per-instance parts.
        resolver: address for /etc/resolv.conf. Nothing needs to answer there, but it must not be a loopback address:
            CoreDNS forwards to it and takes a loopback for a loop.
        open_cgroups: the host is on cgroup v1.
    """
    meta = f"instance-id: {instance_id}\nlocal-hostname: {hostname}\n"
    place(root, SEED / "user-data", user_data, 0o600)
    place(root, SEED / "meta-data", meta)
    # The address is set from outside, before the machine starts.
    place(root, SEED / "network-config", NETWORK_CONFIG)
    place(root, Path("etc/machine-id"), "")
    place(root, Path("etc/hostname"), f"{hostname}\n")
    place(root, Path("etc/resolv.conf"), f"nameserver {resolver}\n")
    # Found by the seed above; said here as well, because the search for other data sources would take time.
    place(root, Path("etc/cloud/cloud.cfg.d/95-seed.cfg"), "datasource_list: [NoCloud, None]\n")
    for unit in MASKED_UNITS:
        _link(root, unit, "/dev/null")
    if open_cgroups:
        place(root, UNITS / OPEN_CGROUPS_UNIT, OPEN_CGROUPS)
        _link(root, f"sysinit.target.wants/{OPEN_CGROUPS_UNIT}", f"../{OPEN_CGROUPS_UNIT}")
