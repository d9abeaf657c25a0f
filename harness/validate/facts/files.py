"""Files of a machine, its listeners and next boot, as machine/files.py prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any


@dataclass(frozen=True)
class FileRights:
    """A file, a socket or a folder: its permissions, its owner (numbers), and whether a private key is in it.

    kind: file, socket, folder (of etcd), or place: what root runs, and where that is.
    """

    kind: str
    mode: int
    owner: int
    group: int
    secret: bool


@dataclass(frozen=True)
class RunningFile:
    """The file that a process runs, and whether it is the one that started it and the one that a login finds.

    None: there is no such file to compare with.
    """

    runs: str
    own: bool | None
    found: str
    same: bool | None


@dataclass(frozen=True)
class OpenSocket:
    """A program that listens on TCP; `address` is "*" for all."""

    address: str
    port: int
    program: str

    @property
    def local(self) -> bool:
        """Tell whether only the machine itself reaches it."""
        return self.address != "*" and ip_address(self.address.partition("%")[0]).is_loopback


@dataclass(frozen=True)
class Room:
    """A folder that programs write to: whether it is read-only, and which shares of its space and files are free."""

    read_only: bool
    space: float
    files: float


@dataclass(frozen=True)
class MachineFiles:
    """One machine.

    newer: by program, by how many seconds each file that it read when it started is newer than the process.
    os_release: ID and VERSION_ID.  boot_settings, boot_modules, boot_swaps: what the next start of the machine sets.
    boot_target, boot_hostname: where it leads, and the name in /etc/hostname ("" where there is none).
    written: folders that programs write to, by path.
    """

    files: Mapping[str, FileRights]
    newer: Mapping[str, Mapping[str, float]]
    executables: Mapping[str, RunningFile]
    os_release: Mapping[str, str]
    listening: tuple[OpenSocket, ...]
    boot_settings: Mapping[str, str]
    boot_modules: tuple[str, ...]
    boot_swaps: tuple[str, ...]
    boot_target: str
    boot_hostname: str
    written: Mapping[str, Room]


def files_of(raw: Mapping[str, Any]) -> MachineFiles:
    """Read what machine/files.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    boot = raw["at_boot"]
    return MachineFiles(
        files={path: FileRights(*row) for path, row in raw["files"].items()},
        newer=raw["newer"],
        executables={
            name: RunningFile(one["runs"], one["own"], one["found"] or "", one["same"])
            for name, one in raw["executables"].items()
        },
        os_release=raw["os_release"],
        listening=tuple(OpenSocket(*row) for row in raw["listening"]),
        boot_settings=boot["settings"],
        boot_modules=tuple(boot["modules"]),
        boot_swaps=tuple(boot["swaps"]),
        boot_target=boot["target"],
        boot_hostname=boot["hostname"],
        written={path: Room(*row) for path, row in raw["written"].items()},
    )
