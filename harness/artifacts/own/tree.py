"""A file system tree of an image: unpacked from a layer, changed in place, and packed as a layer again.

A packed tree depends on nothing but its contents: fixed times, one owner, fixed order, no set-uid or set-gid bits.
"""

from __future__ import annotations

import copy
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from harness.artifacts.layer import FOREIGN, UNREAD

PERMISSIONS = 0o1777  # the image's one user must not become another one


def unpack(archive: Path, target: Path, *, wanted: Callable[[str], bool] = lambda _: True) -> None:
    """Unpack the files, folders and links of an archive that are wanted by their paths (`usr/bin/ssh`).

    `extractall(filter=)` is newer than Debian 12's Python 3.11.2, so the entries are chosen before.
    """

    def chosen(stream: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        for entry in stream:
            name = entry.name.removeprefix("./").strip("/")
            if name and not entry.isdev() and wanted(name):
                renamed = copy.copy(entry)
                renamed.name = name
                yield renamed

    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as stream:
        stream.extraction_filter = lambda entry, _: entry  # later releases would refuse links that a layer has
        stream.extractall(target, members=chosen(stream))  # noqa: S202 - what this host unpacked itself


def read(name: str) -> bool:
    """Tell whether a container reads a path of Debian's at all."""
    return not any(name == folder or name.startswith(f"{folder}/") for folder in (*UNREAD, *FOREIGN))


def remove(tree: Path, patterns: list[str]) -> None:
    """Remove the files, links and folders whose paths match one of the patterns (`usr/bin/perl*`)."""
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # it may have gone with its folder


def pack(tree: Path, target: Path) -> None:
    """Write everything in a tree as a layer."""
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for path in _sorted(tree):
            entry = layer.gettarinfo(path, arcname=path.relative_to(tree).as_posix())
            if entry.islnk():  # a second name of a file: found in the order of paths, so it is always the same one
                layer.addfile(_plain(entry))
            elif entry.isreg():
                layer.addfile(_plain(entry), io.BytesIO(path.read_bytes()))
            else:
                layer.addfile(_plain(entry))


def _sorted(tree: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(tree):
        folders.sort()
        yield from (Path(folder, name) for name in sorted([*folders, *files]))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode &= PERMISSIONS
    return entry
