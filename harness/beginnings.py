"""Threads that never begin: what CPython waits for without an end where a new thread finds no memory.

`Thread.start` returns once the thread says that it runs. A thread that runs out of memory before that says nothing:
https://github.com/python/cpython/issues/140746. Nobody can be told then, so the process ends.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from harness.errors import EXIT_INFRA

SECONDS = 30.0  # a thread begins at once; on a host at load 40 within a second
LOOK_SECONDS = 5.0  # how often: looking costs nothing, and the end may be this much late
SAID = (
    b"vmatrix: this host or its memory limit has no memory left for another thread, so this process ends here; "
    b"give it more memory, then `vmatrix reap --all` removes what it leaves\n"
)
NAME = "beginnings"


def end_without_threads(seconds: float = SECONDS, look: float = LOOK_SECONDS) -> None:
    """End this process, with the exit code for infrastructure, once a thread has not begun for some seconds."""
    if not any(thread.name == NAME for thread in threading.enumerate()):
        threading.Thread(target=_watch, args=(seconds, look), name=NAME, daemon=True).start()


def _watch(seconds: float, look: float) -> None:
    since: dict[int, float] = {}
    while True:
        time.sleep(look)
        with suppress(MemoryError):
            now = time.monotonic()
            waiting = [id(thread) for thread in threading.enumerate() if thread.ident is None]
            since = {one: since.get(one, now) for one in waiting}
            if any(now - first >= seconds for first in since.values()):
                os.write(2, SAID)
                os._exit(EXIT_INFRA)
