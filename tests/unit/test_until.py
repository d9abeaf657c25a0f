"""Waiting: until a value, until it can never come right, or until the deadline; with the last reason in the message."""

from __future__ import annotations

import logging
import os
import re
import threading

import pytest

from harness.errors import EXIT_RETRY, InfraError
from harness.until import Deadline, NotYet, TimedOut, heartbeat, under_way, until


def test_a_value_ends_the_wait_and_only_transitions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[NotYet | int] = [NotYet("a"), NotYet("a"), NotYet("b"), 0]
    with caplog.at_level(logging.INFO):
        found = until(lambda: answers.pop(0), deadline=Deadline.after(60), what="it", interval=0)
    assert found == 0
    assert [r.getMessage().rsplit(": ")[-1] for r in caplog.records] == ["a", "b"]


def test_time_up_says_what_why_and_the_details() -> None:
    with pytest.raises(TimedOut) as caught:
        until(
            lambda: NotYet("no lease"),
            deadline=Deadline.after(0),
            what="cp-0 to have an address",
            describe=lambda: "events",
        )
    assert "waiting for cp-0 to have an address: no lease" in caught.value.summary
    assert caught.value.detail == "events"
    assert caught.value.exit_code == EXIT_RETRY


def test_what_can_never_come_right_is_not_waited_for() -> None:
    def probe() -> int:
        raise InfraError("gone for good")

    with pytest.raises(InfraError, match="gone for good"):
        until(probe, deadline=Deadline.after(3600), what="x")


def test_a_deadline_never_has_less_than_nothing_left() -> None:
    assert Deadline.after(-5).remaining() == 0.0


def test_what_is_waited_for_is_said_at_intervals() -> None:
    said: list[str] = []
    told = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        told.set()

    def probe() -> bool | NotYet:
        return told.is_set() or NotYet("3 GiB are missing")

    with heartbeat(say, every=0.01):
        until(probe, deadline=Deadline.after(30), what="room for a cell", interval=0.02)
    assert re.fullmatch(r"waiting for room for a cell \(\d+ s\): 3 GiB are missing", said[0])
    assert under_way() == ""


def test_nothing_is_said_where_nothing_is_under_way() -> None:
    asked = threading.Event()

    def doing() -> str:
        asked.set()
        return ""

    said: list[str] = []
    with heartbeat(said.append, every=0.01, doing=doing):
        assert asked.wait(30)
    assert said == []


def test_time_that_is_up_on_a_busy_host_says_by_how_much_to_stretch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for load, hint in ((0.0, ""), (40.0, "this host is busy: load 40 on 4 cores; --timeout-scale 10")):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
        with pytest.raises(TimedOut) as caught:
            until(lambda: NotYet("no"), deadline=Deadline.after(0), what="it")
        assert caught.value.hint.startswith(hint)
        assert bool(caught.value.hint) == bool(hint)
