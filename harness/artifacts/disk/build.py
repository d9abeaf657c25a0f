"""Build a Debian disk image from a recipe: install packages, arrange the root, lay out the disk, pack it as qcow2.

Runs as root. The installation happens in mount and process namespaces that die with this process, so a killed build
leaves no mount behind. The raw disk has a GPT, an ext4 root file system, and the boot loaders of a bootable image;
nothing is mounted for it, and all ids follow from an identity.

Boot loaders are GRUB for a BIOS, shim and signed GRUB for UEFI, all from Debian packages. Nothing is installed into
the image but their configuration: GRUB's core finds the root file system by its id and reads /boot/grub/grub.cfg,
which starts the kernel behind /vmlinuz, Debian's link to the newest one. Sources: GRUB manual, "Images" and "BIOS
installation"; grub-core/boot/i386/pc (boot.S, diskboot.S) for the fields that `grub-bios-setup` fills, which needs
a device; UEFI specification 3.5.1.1 for the path of a removable medium's loader.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from harness import proc
from harness.artifacts.catalogue import architecture
from harness.artifacts.disk.catalogue import DiskRecipe
from harness.errors import BadInput

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
# Not part of the image: a folder of their own, so that this host needs none of them. base-files has the links to /usr.
PACKAGES = ("base-files", "grub-common", "grub-pc-bin", "grub-efi-amd64-signed", "shim-signed", "mtools", "dosfstools")
TOOL_LIMIT = 60.0  # each writes a few MiB
MODULES = ("biosdisk", "part_gpt", "ext2", "search", "search_fs_uuid", "configfile", "normal", "linux")
EPOCH = "315532800"  # 1980-01-01, where FAT begins
BOOT_CODE_SIZE = 440  # of the first sector; the rest is the partition table's
DRIVE_CHECK, CORE_SECTOR = 0x66, 0x5C  # in boot.img
BLOCK_LIST = SECTOR - 12  # in the core's first sector: where its other sectors lie
GRUB_CONFIG = """\
# Written when the image was built. /vmlinuz and /initrd.img lead to the newest kernel.
set timeout=0
search --no-floppy --fs-uuid --set=root {root}
linux /vmlinuz root=UUID={root} {arguments}
initrd /initrd.img
boot
"""
FIND_CONFIG = "search.fs_uuid {root} root\nset prefix=($root)/boot/grub\nconfigfile ($root)/boot/grub/grub.cfg\n"
Say = Callable[[str], None]
INSTALL_SECONDS = 60.0  # expected
PACK_SECONDS = 25.0  # expected
LOADER_SECONDS = 20.0  # expected
ENABLE_LIMIT = 30.0  # a few links
# SIGKILL reaches the installation when this process dies: as parent death signal, and as the end of its pid namespace.
ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


def build(recipe: DiskRecipe, *, size_gib: int, work: Path, log: Path, say: Say, mirror: str, seconds: float) -> Path:
    """Build an image.

    Args:
        work: an empty folder on a file system with 2 GiB free; the caller removes it.
        mirror: a Debian archive's URL; "" for mmdebstrap's own default.
        seconds: how long the installation of Debian may take.

    Returns: the qcow2 file inside `work`.

    Raises:
        BadInput: not root.  InfraError: a step failed, with its last lines and the log's path.
    """
    if os.geteuid() != 0:
        raise BadInput("building a disk image needs root", hint="run it as root")
    if recipe.bootable:
        require_architecture()
    ids = DiskIds.of(recipe.key(size_gib=size_gib))
    root, raw, image = work / "root", work / "disk.raw", work / "disk.qcow2"
    hint = "check that this machine can install Debian packages (apt-get update) and has free disk space (df -h)"
    with proc.failing_as_infra(f"disk image {recipe.name} could not be built", hint=hint):
        say(f"installing {len(recipe.packages)} packages and their dependencies (about {INSTALL_SECONDS:.0f} s)")
        root_file_system(recipe, root, log, mirror=mirror, seconds=seconds)
        loader = None
        if recipe.bootable:
            configure(root, ids, recipe.kernel_arguments)
            say(f"making its boot loaders (about {LOADER_SECONDS:.0f} s)")
            loader = _boot_loader(recipe, ids, work, log, mirror=mirror, seconds=seconds)
        say(f"packing the disk (about {PACK_SECONDS:.0f} s)")
        raw_disk(root, raw, size_gib=size_gib, ids=ids, log=log, boot=loader)
        compressed: list[str | Path] = ["-f", "raw", "-O", "qcow2", "-c", "-m", "4", "-W", raw, image]
        proc.run(["qemu-img", "convert", *compressed], timeout=PACK_LIMIT, log=log)
    return image


def root_file_system(recipe: DiskRecipe, root: Path, log: Path, *, mirror: str, seconds: float) -> None:
    """Install a recipe's packages below a folder that is not there yet, and arrange it as the recipe says.

    Raises:
        CommandFailed: the packages could not be installed.
    """
    _install(recipe, root, log, mirror, seconds)
    _arrange(recipe, root)


def _install(recipe: DiskRecipe, root: Path, log: Path, mirror: str, seconds: float) -> None:
    options = ["--variant=apt", *[f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.exclude]]
    _mmdebstrap(options, recipe.packages, recipe.suite, root, log, mirror=mirror, seconds=seconds)


def _boot_loader(recipe: DiskRecipe, ids: DiskIds, work: Path, log: Path, *, mirror: str, seconds: float) -> BootLoader:
    """Unpack what makes boot loaders into a folder of its own, and make them."""
    tools = work / "boot-tools"
    _mmdebstrap(["--variant=extract"], PACKAGES, recipe.suite, tools, log, mirror=mirror, seconds=seconds)
    return BootTools(tools, log, ISOLATED).loader(ids)


def _mmdebstrap(
    options: Sequence[str], packages: Sequence[str], suite: str, target: Path, log: Path, *, mirror: str, seconds: float
) -> None:
    argv = ["mmdebstrap", "--mode=root", *options, f"--include={','.join(packages)}", suite, str(target)]
    env = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": str(target.parent)}
    proc.run([*ISOLATED, *argv, *([mirror] if mirror else [])], timeout=seconds, log=log, env=env)


def _arrange(recipe: DiskRecipe, root: Path) -> None:
    """Copy the recipe's files, mask its units, remove what must not be in an image."""
    for tree in recipe.files:
        shutil.copytree(tree, root, dirs_exist_ok=True)
        for copied in (root / path.relative_to(tree) for path in tree.rglob("*")):
            os.chown(copied, 0, 0)
    for unit in recipe.mask:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    if recipe.enable:
        proc.run(["systemctl", f"--root={root}", "--quiet", "enable", *recipe.enable], timeout=ENABLE_LIMIT)
    for pattern in recipe.remove:
        for path in matching(root, pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    (root / "etc/hostname").unlink(missing_ok=True)
    _mark_up_to_date(root)


def matching(root: Path, pattern: str) -> list[Path]:
    """Return what a pattern (absolute in the image) names below a root, links that lead nowhere on this host too:
    Path.glob would leave those out."""
    return [root / match for match in glob(pattern.lstrip("/"), root_dir=root, recursive=True, include_hidden=True)]


def _mark_up_to_date(root: Path) -> None:
    """Tell systemd that /etc and /var fit /usr, or every first boot rebuilds caches that are fresh."""
    stamp = (root / "usr").stat().st_mtime_ns
    for marker in (root / "etc/.updated", root / "var/.updated"):
        marker.write_text(f"TIMESTAMP_NSEC={stamp}\n", encoding="utf-8")
        os.utime(marker, ns=(stamp, stamp))


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


def require_architecture() -> None:
    """Refuse a host that bootable images cannot be built on. Raises BadInput."""
    if architecture() != "amd64":
        raise BadInput("bootable images are built on amd64 only", hint="use a `url` image (matrix/images.yml)")


def configure(root: Path, ids: DiskIds, arguments: tuple[str, ...]) -> None:
    """Write what an image's own files say of its disk: /etc/fstab and /boot/grub/grub.cfg."""
    fstab = f"UUID={ids.file_system} / ext4 rw,discard,errors=remount-ro 0 1\n"
    (root / "etc/fstab").write_text(fstab, encoding="utf-8")
    (root / "boot/grub").mkdir(parents=True, exist_ok=True)
    config = GRUB_CONFIG.format(root=ids.file_system, arguments=" ".join(arguments))
    (root / "boot/grub/grub.cfg").write_text(config, encoding="utf-8")


@dataclass(frozen=True)
class BootTools:
    """A folder with the programs and files of PACKAGES, unpacked; programs run with it as their root.

    isolated: what to put before a command so that it ends with this process.
    """

    folder: Path
    log: Path
    isolated: tuple[str, ...]

    def loader(self, ids: DiskIds) -> BootLoader:
        """Make the boot loaders that look for a disk's root file system.

        Raises:
            CommandFailed: a program failed.
        """
        (self.folder / "work").mkdir()
        find = FIND_CONFIG.format(root=ids.file_system)
        (self.folder / "work/find.cfg").write_text(find, encoding="utf-8")
        core = self._core()
        return BootLoader(self._boot_code(), core, self._esp(ids))

    def _run(self, *argv: str) -> None:
        env = {"SOURCE_DATE_EPOCH": EPOCH, "LC_ALL": "C.UTF-8"}
        proc.run([*self.isolated, "chroot", self.folder, *argv], timeout=TOOL_LIMIT, log=self.log, env=env)

    def _core(self) -> bytes:
        """Return GRUB's core with all that it needs, as it lies in the BIOS boot partition."""
        options = ("-O", "i386-pc", "-o", "/work/core.img", "-c", "/work/find.cfg", "-p", "/boot/grub")
        self._run("grub-mkimage", *options, *MODULES)
        core = bytearray((self.folder / "work/core.img").read_bytes())
        if len(core) > ESP_START - CORE_START:
            raise AssertionError(f"GRUB's core has {len(core)} bytes, more than its partition")
        struct.pack_into("<Q", core, BLOCK_LIST, CORE_START // SECTOR + 1)
        return bytes(core)

    def _boot_code(self) -> bytes:
        """Return the code in the disk's first sector, which loads the core's first."""
        code = bytearray((self.folder / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:BOOT_CODE_SIZE])
        struct.pack_into("<Q", code, CORE_SECTOR, CORE_START // SECTOR)
        code[DRIVE_CHECK : DRIVE_CHECK + 2] = b"\x90\x90"  # no floppy: trust no drive number but a hard disk's
        return bytes(code)

    def _esp(self, ids: DiskIds) -> Path:
        """Return the EFI system partition: shim where firmware looks, which starts GRUB beside it."""
        files = {
            "BOOTX64.EFI": self.folder / "usr/lib/shim/shimx64.efi.signed",
            "grubx64.efi": self.folder / "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
        }
        esp, work = "/work/esp.img", self.folder / "work"
        volume = f"{ids.esp.fields[0]:08x}"
        self._run("mkfs.vfat", "-F", "16", "--invariant", "-i", volume, "-n", "EFI", "-C", esp, str(ESP_MIB * 1024))
        self._run("mmd", "-i", esp, "::/EFI", "::/EFI/BOOT", "::/EFI/debian")
        for name, source in files.items():
            shutil.copyfile(source, work / name)
            self._run("mcopy", "-i", esp, f"/work/{name}", f"::/EFI/BOOT/{name}")
        self._run("mcopy", "-i", esp, "/work/find.cfg", "::/EFI/debian/grub.cfg")
        return work / "esp.img"
