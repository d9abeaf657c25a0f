"""Advisory locks on files, so that two commands never change one thing at the same time.

A lock file may be removed by its holder: whoever waited for it notices and locks the new one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.until import Deadline, NotYet, until


@contextmanager
def hold(path: Path, *, seconds: float, what: str) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel releases it when the holder dies.

    Args:
        path: the lock file; it and its folder are created as needed.
        what: what is waited for, for the message: "another command on instance default to end".

    Raises:
        TimedOut: another process held it all the time.
    """
    handle = until(lambda: _acquire(path), deadline=Deadline.after(seconds), what=what, interval=0.1)
    try:
        yield
    finally:
        os.close(handle)


def _acquire(path: Path) -> int | NotYet:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return NotYet(f"{path} is locked")
