"""Work that is begun in a thread: whoever waits for it gets what it came to, and nobody is left with it."""

from __future__ import annotations

import threading
import time

import pytest

from harness import stopping
from harness.errors import BadInput
from harness.stopping import begun


def test_who_waits_for_work_gets_its_result_as_often_as_asked() -> None:
    with begun(lambda: threading.current_thread().name) as result:
        assert (result(), result()) == ("begun", "begun")


def test_who_waits_for_work_gets_its_error() -> None:
    def fail() -> None:
        raise BadInput("no such program")

    with begun(fail) as result, pytest.raises(BadInput, match="no such program"):
        result()


def test_an_error_that_nobody_waits_for_is_nobodys() -> None:
    def fail() -> None:
        raise BadInput("no such program")

    with begun(fail):
        pass


def test_work_that_nobody_waits_for_any_more_ends() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            while True:
                stopping.check()
                time.sleep(0.01)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt), begun(work):
        raise KeyboardInterrupt
    assert ended.is_set()
