"""When a guest is believed not to answer; tests/embedded/operator/test_node_health.py watches a real API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from harness.kube.client import Cluster
from harness.operator.controllers import guest
from harness.operator.controllers.guest import SILENT_SECONDS, GuestNodes, GuestView

NODE = {"metadata": {"name": "m-0"}}
ANSWERED = GuestView({"m-0": NODE}, None, "")


class Clock:
    """The seconds of a test."""

    at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of guests, which are asked again at once."""
    made = Clock()
    monkeypatch.setattr(guest, "time", SimpleNamespace(monotonic=made))
    monkeypatch.setattr(guest, "LAST_RETRY_SECONDS", 0.0)
    return made


def broken(view: GuestView, clock: Clock, *moments: float) -> tuple[GuestView, list[str]]:
    """Return what is known of a guest that fails at these moments, and what was told of it."""
    told: list[str] = []
    over = threading.Event()

    @contextmanager
    def slow() -> Iterator[Cluster]:
        over.wait()  # the guest's own thread waits for its first answer meanwhile
        raise OSError("nobody is there")
        yield

    nodes = GuestNodes("one", slow, lambda: told.append(nodes.view.trouble))
    nodes.view = view
    for moment in moments:
        clock.at = 100.0 + moment
        nodes._failed("cut")
    nodes.stop()
    over.set()
    return nodes.view, told


def test_a_break_that_is_short_is_no_news(clock: Clock) -> None:
    assert broken(ANSWERED, clock, 0.0, SILENT_SECONDS - 0.1) == (ANSWERED, [])


def test_a_guest_that_stays_away_is_said_not_to_answer(clock: Clock) -> None:
    assert broken(ANSWERED, clock, 0.0, SILENT_SECONDS) == (GuestView(trouble="cut"), ["cut"])


def test_a_guest_that_never_answered_this_manager_is_told_after_the_same_time(clock: Clock) -> None:
    assert broken(GuestView(), clock, 0.0, SILENT_SECONDS - 0.1) == (GuestView(), [])
    assert broken(GuestView(), clock, 0.0, SILENT_SECONDS) == (GuestView(trouble="cut"), ["cut"])
