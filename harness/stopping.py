"""Work in a thread that the main thread may have to end: what it started is killed, what it does itself breaks off.

A signal interrupts the main thread alone. Others learn of it here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

END_SECONDS = 10.0  # for commands that were killed to be gone
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


def current() -> threading.Event | None:
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
