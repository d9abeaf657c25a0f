"""The boot loaders of a bootable image: GRUB for a BIOS, shim and signed GRUB for UEFI, all from Debian packages.

Nothing is installed into the image but their configuration: GRUB's core finds the root file system by its id and reads
/boot/grub/grub.cfg, which starts the kernel behind /vmlinuz, Debian's link to the newest one.

Sources: GRUB manual, "Images" and "BIOS installation"; grub-core/boot/i386/pc (boot.S, diskboot.S) for the fields that
`grub-bios-setup` fills, which needs a device; UEFI specification 3.5.1.1 for the path of a removable medium's loader.
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.artifacts.catalogue import architecture
from harness.artifacts.disk.layout import CORE_START, ESP_MIB, ESP_START, SECTOR, BootLoader, DiskIds
from harness.errors import BadInput

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
