"""Clearing the cache of disk images of what the catalogue no longer declares, and of former builds."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.disk.cache import ImageCache
from harness.artifacts.workdir import LOCK, half_done
from harness.files import if_unlocked
from harness.spec.models import DiskImage


@dataclass(frozen=True)
class StaleImage:
    """What can go of one image: its files (or the folder of a killed build), and their size in bytes."""

    name: str
    paths: tuple[Path, ...]
    size: int


def prune(cache: ImageCache, images: Sequence[DiskImage], *, dry_run: bool = False) -> tuple[StaleImage, ...]:
    """Remove all but the current version of every declared image; return what went, or (`dry_run`) what would go.

    An image that another process makes is left. Machines whose disks were imported do not need the file any more.
    """
    current = {found.file for image in images if (found := cache.current(image)) is not None}
    gone = []
    for name in sorted({lock.name.removeprefix(LOCK) for lock in cache.root.glob(f"{LOCK}*")}):
        with if_unlocked(cache.root / f"{LOCK}{name}") as free:
            stale = _stale(cache, name, current) if free else None
            if stale is not None:
                gone.append(stale)
                if not dry_run:
                    _remove(stale)
    return tuple(gone)


def _stale(cache: ImageCache, name: str, current: set[str]) -> StaleImage | None:
    """Return what can go of one image, by its name; None when there is nothing."""
    paths = half_done(cache.root, name)
    for kept in cache.kept(name):
        if kept.file not in current:
            paths += [cache.path(kept).with_suffix(".json"), cache.path(kept)]
    size = sum(file.stat().st_size for path in paths for file in (path, *path.rglob("*")) if file.is_file())
    return StaleImage(name, tuple(paths), size) if paths else None


def _remove(found: StaleImage) -> None:
    for path in found.paths:  # a record before its image: without it the image is not found any more
        shutil.rmtree(path) if path.is_dir() else path.unlink()
