"""Clearing the cache of artifacts of what the catalogue no longer declares.

Kept are every recipe of a declared version, from whichever source; what `current` names, because a mirror may serve
it; and whatever another process works on. All else is a former recipe's result, or a build that was killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.recipe import RECORD, Ref
from harness.artifacts.store import CURRENT, Store
from harness.artifacts.workdir import LOCK, TEMPORARY
from harness.files import if_unlocked


@dataclass(frozen=True)
class StaleArtifact:
    """A folder of the cache that nothing declares, and its size in bytes."""

    ref: Ref
    directory: Path
    size: int


def stale(store: Store) -> tuple[StaleArtifact, ...]:
    """Return what nothing declares and nobody works on, in the order of the paths; asks no site, removes nothing."""
    declared = {Ref(name, version) for name in store.catalogue.names() for version in store.catalogue.versions(name)}
    found = []
    for directory in _folders(store.root):
        ref = Ref(str(directory.parent.parent.relative_to(store.root)), directory.parent.name)
        if ref in declared and _kept(store, ref, directory):
            continue
        with if_unlocked(_lock(directory)) as free:
            if free:
                size = sum(path.lstat().st_size for path in directory.rglob("*"))
                found.append(StaleArtifact(ref, directory, size))
    return tuple(found)


def remove(folder: StaleArtifact) -> bool:
    """Remove a stale folder; tell whether it was done, or another process has it."""
    directory = folder.directory
    with if_unlocked(_lock(directory)) as free:
        if not free:
            return False
        if not directory.name.startswith(TEMPORARY):  # at one stroke: nobody finds half of it
            directory = directory.rename(directory.with_name(f"{TEMPORARY}{directory.name}-{os.getpid()}"))
        shutil.rmtree(directory)
    link = directory.parent / CURRENT
    if link.is_symlink() and not link.exists():
        link.unlink()
    return True


def _folders(root: Path) -> Iterator[Path]:
    """Yield the finished and the half-done folders of the cache; both lie beside the locks of a version."""
    versions = sorted({lock.parent for lock in root.glob(f"**/{LOCK}*")})
    for version in versions:
        finished = {record.parent for record in version.glob(f"*/{RECORD}") if not record.parent.is_symlink()}
        yield from sorted(finished | set(version.glob(f"{TEMPORARY}*")))


def _kept(store: Store, ref: Ref, directory: Path) -> bool:
    link = directory.parent / CURRENT
    return directory.name in store.keys(ref) or (link.is_symlink() and os.readlink(link) == directory.name)


def _lock(directory: Path) -> Path:
    """Return the lock of the recipe that a folder is, or was to become, the result of."""
    name = directory.name
    key = name.removeprefix(TEMPORARY).rpartition("-")[0] if name.startswith(TEMPORARY) else name
    return directory.with_name(f"{LOCK}{key}")
