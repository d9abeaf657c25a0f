"""Files of a machine and its listeners, as machine/files.py prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any


@dataclass(frozen=True)
class FileRights:
    """A file, a socket or a folder: its permissions, its owner (numbers), and whether a private key is in it.

    kind: file, socket, folder, data (a folder of etcd's data), above (a folder that those are in), or place: what root
    runs, and where that is.
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
    """A folder that programs write to, or a mount below one.

    closed: why nothing can be written, "" where something can.  space, files: which shares are free.
    locked: files in it that cannot be changed.  runs: whether programs are run from there.  noexec: whether that is
    forbidden.  passing: whether the next boot empties it, although it has to last.
    """

    closed: str
    space: float
    files: float
    locked: tuple[str, ...] = ()
    runs: bool = False
    noexec: bool = False
    passing: bool = False


@dataclass(frozen=True)
class MachineFiles:
    """One machine.

    newer: by program, by how many seconds each file that it read when it started is newer than the process.
    os_release: ID and VERSION_ID.
    written: folders that programs write to, by path.
    """

    files: Mapping[str, FileRights]
    newer: Mapping[str, Mapping[str, float]]
    executables: Mapping[str, RunningFile]
    os_release: Mapping[str, str]
    listening: tuple[OpenSocket, ...]
    written: Mapping[str, Room]


def files_of(raw: Mapping[str, Any]) -> MachineFiles:
    """Read what machine/files.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    return MachineFiles(
        files={path: FileRights(*row) for path, row in raw["files"].items()},
        newer=raw["newer"],
        executables={
            name: RunningFile(one["runs"], one["own"], one["found"] or "", one["same"])
            for name, one in raw["executables"].items()
        },
        os_release=raw["os_release"],
        listening=tuple(OpenSocket(*row) for row in raw["listening"]),
        written={path: Room(**{**row, "locked": tuple(row["locked"])}) for path, row in raw["written"].items()},
    )
