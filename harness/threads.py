"""Threads: work that the main thread may have to end, work beside other work, and threads that never begin.

A signal interrupts the main thread alone; others learn of it here. `Thread.start` returns once the thread says that
it runs, and one that runs out of memory before that says nothing: https://github.com/python/cpython/issues/140746.
Nobody can be told then, so the process ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from harness.errors import EXIT_INFRA, VmatrixError

T = TypeVar("T")
END_SECONDS = 10.0  # for commands that were killed to be gone
BEGIN_SECONDS = 30.0  # a thread begins at once; on a host at load 40 within a second
LOOK_SECONDS = 5.0  # how often: looking costs nothing, and the end may be this much late
NO_MEMORY = (
    b"vmatrix: this host or its memory limit has no memory left for another thread, so this process ends here; "
    b"give it more memory, then `vmatrix reap --all` removes what it leaves\n"
)
WATCH = "beginnings"
_STOP: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class NotWanted(BaseException):
    """This thread's work is not wanted any more: nobody is told, because who asked for it knows."""


@contextmanager
def stoppable(stop: threading.Event) -> Iterator[None]:
    """Let an event end what this thread does inside."""
    token = _STOP.set(stop)
    try:
        yield
    finally:
        _STOP.reset(token)


def stop_event() -> threading.Event | None:
    """Return the event that ends this thread's work, None where nothing does."""
    return _STOP.get()


def check() -> None:
    """Raise NotWanted when this thread's work is not wanted any more; to be called between two pieces of it."""
    stop = _STOP.get()
    if stop is not None and stop.is_set():
        raise NotWanted


@contextmanager
def begun(call: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Begin work in a thread; yield what waits for it, and returns what it returned or raises what it raised.

    Work that nobody waits for any more is ended.
    """
    from concurrent.futures import Future  # which most commands need for nothing else

    stop, future = threading.Event(), Future[T]()

    def work() -> None:
        try:
            with stoppable(stop):
                future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the work gets it
            future.set_exception(error)

    thread = threading.Thread(target=work, name="begun", daemon=True)
    thread.start()
    try:
        yield future.result
    finally:
        stop.set()
        thread.join(END_SECONDS)


@contextmanager
def alongside(call: Callable[[], object], tell: Callable[[str], None]) -> Iterator[None]:
    """Do something in a thread while the body runs. Wait for it where the body ends well, and end it otherwise.

    Where it fails, the body goes on: whoever needs its result makes it then, and says what is wrong.

    Args:
        tell: told why it failed.
    """

    with begun(partial(_tried, call, tell, "it is tried again when it is needed")) as ended:
        yield
        ended()


def in_background(call: Callable[[], object], tell: Callable[[str], None]) -> threading.Thread:
    """Do something in a thread that nobody has to wait for; it ends with this process at the latest.

    Args:
        call: may end anywhere, and does the rest the next time.
        tell: told why it failed.
    """
    work = partial(_tried, call, tell, "it is tried again after the next build")
    thread = threading.Thread(target=work, name="behind", daemon=True)
    thread.start()
    return thread


def _tried(call: Callable[[], object], tell: Callable[[str], None], later: str) -> None:
    """Do something; where it fails, tell why, and when it is tried again."""
    try:
        call()
    except (VmatrixError, OSError) as error:
        tell(f"{error}; {later}")


def end_without_threads(seconds: float = BEGIN_SECONDS, look: float = LOOK_SECONDS) -> None:
    """End this process, with the exit code for infrastructure, once a thread has not begun for some seconds."""
    if not any(thread.name == WATCH for thread in threading.enumerate()):
        threading.Thread(target=_watch_beginnings, args=(seconds, look), name=WATCH, daemon=True).start()


def _watch_beginnings(seconds: float, look: float) -> None:
    since: dict[int, float] = {}
    while True:
        time.sleep(look)
        with suppress(MemoryError):
            now = time.monotonic()
            waiting = [id(thread) for thread in threading.enumerate() if thread.ident is None]
            since = {beginning: since.get(beginning, now) for beginning in waiting}
            if any(now - first >= seconds for first in since.values()):
                os.write(2, NO_MEMORY)
                os._exit(EXIT_INFRA)
