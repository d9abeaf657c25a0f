"""What is begun beside something else: both run, the body decides."""

from __future__ import annotations

import threading

import pytest

from harness import proc
from harness.artifacts.background import alongside, in_background
from harness.errors import InfraError

SOON = 60.0  # until what is certain to happen has happened, on a host that stands still for a while


def test_both_run_at_the_same_time_and_it_is_waited_for() -> None:
    begun, body, done = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        assert body.wait(SOON)
        done.set()

    with alongside(call, pytest.fail):
        assert begun.wait(SOON)
        body.set()
    assert done.is_set()


def test_it_ends_with_a_body_that_fails() -> None:
    begun, ended = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        try:
            proc.run(["sleep", "3600"], timeout=3600)
        finally:
            ended.set()

    def body() -> None:
        assert begun.wait(SOON)
        raise InfraError("no luck")

    with pytest.raises(InfraError, match="no luck"), alongside(call, pytest.fail):
        body()
    assert ended.wait(SOON)


def test_its_own_failure_is_told_and_ends_nothing() -> None:
    told: list[str] = []

    def call() -> None:
        raise InfraError("no mirror")

    with alongside(call, told.append):
        pass
    assert told == ["no mirror; it is tried again when it is needed"]


def test_nobody_waits_for_what_tidies_up_and_its_failure_is_told() -> None:
    told: list[str] = []
    going, goes = threading.Event(), threading.Event()

    def call() -> None:
        going.set()
        assert goes.wait(SOON)
        raise OSError("no room")

    thread = in_background(call, told.append)
    assert going.wait(SOON)
    assert thread.daemon
    goes.set()
    thread.join(SOON)
    assert told == ["no room; it is tried again after the next build"]
