"""Work folders of caches: make an entry beside the others under a lock, removed however the work ends.

The three caches (artifacts, disk images, node images) share it: a lock per entry keeps processes from making the same
thing twice, and its holder removes what killed processes left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from harness.files import locked

LOCK = ".lock-"
TEMPORARY = ".tmp-"


def hold(root: Path, name: str, waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Lock an entry of a cache folder, which is made as needed; `waiting` is called when another process has it."""
    root.mkdir(parents=True, exist_ok=True)
    return locked(root / f"{LOCK}{name}", waiting=waiting)


@contextmanager
def working(root: Path, name: str) -> Iterator[Path]:
    """Yield the path of a folder to make and to make an entry in; only for the holder of the entry's lock."""
    for left in half_done(root, name):
        shutil.rmtree(left, ignore_errors=True)
    work = root / f"{TEMPORARY}{name}-{os.getpid()}"
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def half_done(root: Path, name: str) -> list[Path]:
    """Return the folders in which an entry was or is being made, one for each process."""
    found = sorted(root.glob(f"{TEMPORARY}{name}-*"))
    return [folder for folder in found if folder.name.rpartition("-")[0] == f"{TEMPORARY}{name}"]
