"""Whose a cell's folder of SSH sockets is, and which of these folders on this host nobody uses any more.

A cell's folder goes with the cell. That of a run that was killed stays, also when its infra cluster goes without being
asked for its cells. So the folder names its infra cluster and the time at which the cell expires, and whoever makes the
cell holds a lock in it, which the kernel releases when that process dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from harness.files import if_unlocked
from harness.machines.access import PREFIX, close_connections

OWNER = "owner.json"  # both what is written down of the cell and the file that is locked


@dataclass(frozen=True)
class Owner:
    """What a folder belongs to: the kubeconfig of the cell's infra cluster, and when the cell expires (Unix time)."""

    infra: str
    expires_at: float


@contextmanager
def held(folder: Path, owner: Owner) -> Iterator[None]:
    """Make a cell's folder and keep it from being taken for one that nobody uses. Removes nothing."""
    with _locked(folder) as file:
        file.truncate(0)
        file.write(json.dumps(asdict(owner)))
        file.flush()
        yield


def _locked(folder: Path) -> TextIO:
    """Make a folder with the file that is locked in it; return that file, locked."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            file = (folder / OWNER).open("a", encoding="utf-8")
        except FileNotFoundError:
            continue  # somebody has just taken the empty folder away
        fcntl.flock(file, fcntl.LOCK_SH)
        if _is_at(file.fileno(), folder / OWNER):
            return file
        file.close()  # somebody has just taken away a dead process's folder of this name


def sweep(infra: Path | None = None) -> list[Path]:
    """Remove this user's folders that no process holds, of expired cells and of an infra cluster; return them.

    Those in which nothing is written down go, too: whoever made them was killed before that.

    Args:
        infra: the kubeconfig of an infra cluster that is gone.
    """
    return [folder for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")) if _removed(folder, infra)]


def _removed(folder: Path, infra: Path | None) -> bool:
    with suppress(OSError):  # another user's, one that has just gone, or something else of this name
        if folder.lstat().st_uid != os.geteuid():
            return False
        if not (folder / OWNER).exists():
            for inner in folder.iterdir():
                inner.rmdir()  # ansible's own, made anew by a playbook that has outlived its cell; only if it is empty
            folder.rmdir()  # only if it is empty
            return True
        with if_unlocked(folder / OWNER) as free:
            if free and _is_over(folder / OWNER, infra):
                close_connections(folder)
                return True
    return False


def _is_over(path: Path, infra: Path | None) -> bool:
    if path.stat().st_size == 0:
        return True
    owner = _read(path)
    return owner is not None and (owner.infra == str(infra) or owner.expires_at < time.time())


def _read(path: Path) -> Owner | None:
    """Return a folder's owner; None where a version has written it that writes something else."""
    try:
        return Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return None


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
