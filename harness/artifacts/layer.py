"""One image layer as a tar archive that depends on nothing but its contents: fixed times, no user names, fixed order.

Layers are not compressed: guests pull them over a local wire, where unpacking would cost more than the bytes.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

# What nothing in a container reads, by far the largest part of a small Debian tree
UNREAD = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "boot", "var")
# What belongs to the machine that unpacked the tree, or to the runtime that starts the container
FOREIGN = ("etc/hostname", "etc/resolv.conf", "etc/apt", "etc/fstab", "dev", "proc", "sys")
USERS = {"usr/share/base-passwd/passwd.master": "etc/passwd", "usr/share/base-passwd/group.master": "etc/group"}


def write(
    target: Path,
    *,
    files: Mapping[str, Path],
    links: Mapping[str, str],
    base: Path | None = None,
    directories: Mapping[str, int],
    modes: Mapping[str, int] | None = None,
) -> None:
    """Write a layer.

    Args:
        files: absolute path in the image -> the file to put there, in the place of the Debian tree's.
        links: absolute path in the image -> target of a symbolic link.
        base: a tar archive of a Debian tree to put below all of it.
        directories: absolute path -> mode of folders to add.
        modes: of files that are not 0755.
    """
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as layer:
        seen: set[str] = set()
        if base is not None:
            _copy(base, layer, seen, frozenset(_clean(path) for path in files))
        for path, mode in sorted(directories.items()):
            _folder(layer, path, mode, seen)
        for path, source in sorted(files.items()):
            _parents(layer, path, seen)
            entry = _entry(path, mode=(modes or {}).get(path, 0o755))
            entry.size = source.stat().st_size
            with source.open("rb") as content:
                layer.addfile(entry, content)
        for path, destination in sorted(links.items()):
            _parents(layer, path, seen)
            _link(layer, path, destination, seen)


def member(archive: Path, path: str) -> bytes:
    """Return the content of one regular file in a tar archive, named by its absolute path."""
    with tarfile.open(archive) as stream:
        for entry in stream:
            content = stream.extractfile(entry) if _clean(entry.name) == path.strip("/") else None
            if content is not None:
                return content.read()
    raise FileNotFoundError(f"{archive} holds no {path}")


def _copy(base: Path, layer: tarfile.TarFile, seen: set[str], replaced: frozenset[str]) -> None:
    """Copy a Debian tree, without what nothing reads or is replaced, and with its user database in place."""
    with tarfile.open(base) as stream:
        for entry in stream:
            name = _clean(entry.name)
            if not name or _below(name, (*UNREAD, *FOREIGN)) or entry.isdev() or name in replaced:
                continue
            content = stream.extractfile(entry) if entry.isfile() else None
            data = content.read() if content is not None else b""
            copy = _entry(name, mode=entry.mode)
            copy.type, copy.linkname, copy.size = entry.type, entry.linkname, len(data)
            copy.linkname = _clean(entry.linkname) if entry.islnk() else entry.linkname
            copy.uid, copy.gid = entry.uid, entry.gid
            layer.addfile(copy, io.BytesIO(data))
            seen.add(name)
            if name in USERS and USERS[name] not in replaced:
                users = _entry(USERS[name], mode=0o644)
                users.size = len(data)
                layer.addfile(users, io.BytesIO(data))


def _parents(layer: tarfile.TarFile, path: str, seen: set[str]) -> None:
    for parent in reversed(PurePosixPath(_clean(path)).parents):
        if str(parent) != ".":
            _folder(layer, str(parent), 0o755, seen)


def _folder(layer: tarfile.TarFile, path: str, mode: int, seen: set[str]) -> None:
    if _clean(path) in seen:
        return
    entry = _entry(path, mode=mode)
    entry.type = tarfile.DIRTYPE
    layer.addfile(entry)
    seen.add(entry.name)


def _link(layer: tarfile.TarFile, path: str, destination: str, seen: set[str]) -> None:
    entry = _entry(path, mode=0o777)
    if entry.name in seen:
        return
    entry.type, entry.linkname = tarfile.SYMTYPE, destination
    layer.addfile(entry)
    seen.add(entry.name)


def _entry(path: str, *, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(_clean(path))
    entry.mode, entry.mtime = mode, 0
    return entry


def _clean(path: str) -> str:
    return str(PurePosixPath("/") / path).strip("/")


def _below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(folder + "/") for folder in folders)
