"""Advisory locks on files, so that two commands never change one thing at the same time.

A lock file may be removed by its holder: whoever waited for it notices and locks the new one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.until import Deadline, NotYet, until

log = logging.getLogger(__name__)


@contextmanager
def hold(path: Path, *, seconds: float, what: str) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel releases it when the holder dies.

    Args:
        path: the lock file; it and its folder are created as needed.
        what: what is waited for, for the message: "another command on instance default to end".

    Raises:
        TimedOut: another process held it all the time.
    """
    told = False

    def attempt() -> int | NotYet:
        nonlocal told
        answer = _acquire(path)
        if isinstance(answer, NotYet) and not told:
            told = True
            log.warning("waiting for %s: %s", what, answer.reason)
        return answer

    handle = until(attempt, deadline=Deadline.after(seconds), what=what, interval=0.1)
    try:
        _sign(handle)
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
        why = "it was just replaced"
    except BlockingIOError:
        why = holder(path)
    except FileNotFoundError:
        why = "it was just removed"
    os.close(handle)
    return NotYet(f"{path} is locked: {why}")


def _sign(handle: int) -> None:
    """Write down who holds the lock, if the disk has room for it; since when is the file's time."""
    with suppress(OSError):  # an instance on a full disk can be deleted all the same
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {shlex.join(sys.argv)}\n".encode(), 0)


def holder(path: Path) -> str:
    """Return which process holds a lock and since when, as that process wrote it down."""
    try:
        pid, _, command = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
        since = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return "by a process that has ended meanwhile"
    return f"by process {pid} ({command}) since {since:%Y-%m-%d %H:%M:%S} UTC" if pid else "by another process"
