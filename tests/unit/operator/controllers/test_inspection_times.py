"""When machines of clusters are looked into."""

from __future__ import annotations

import pytest

from harness.operator.controllers.inspection_times import AGAIN_SECONDS, EACH_SECONDS, LOOK_SECONDS, InspectionTimes

KEY = ("ns", "m-0")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_change_is_told_within_a_minute() -> None:
    assert LOOK_SECONDS < 60


def test_after_an_operation_a_machine_is_due_at_once(clock: Clock) -> None:
    times = InspectionTimes(clock)
    assert times.left(KEY, "1-1", known=False) == 0
    times.note(KEY, "1-1", answered=True)
    assert times.left(KEY, "1-1", known=True) == LOOK_SECONDS
    clock.now += LOOK_SECONDS - 1
    assert times.left(KEY, "1-1", known=True) == 1
    assert times.left(KEY, "2-1", known=False) == 0


def test_after_a_restart_of_the_manager_machines_are_spread(clock: Clock) -> None:
    first, second = InspectionTimes(clock), InspectionTimes(clock)
    names = [("ns", f"m-{n}") for n in range(50)]
    due = [first.left(key, "1-1", known=True) for key in names]
    assert len(set(due)) > 30
    assert all(0 <= one <= LOOK_SECONDS for one in due)
    assert due == [second.left(key, "1-1", known=True) for key in names]
    assert due == [first.left(key, "1-1", known=True) for key in names]


def test_a_first_failure_is_asked_about_again_soon(clock: Clock) -> None:
    times = InspectionTimes(clock)
    assert times.note(KEY, "1-1", answered=False) == 1
    assert times.left(KEY, "1-1", known=True) == AGAIN_SECONDS
    assert times.note(KEY, "1-1", answered=False) == 2
    assert times.left(KEY, "1-1", known=True) == LOOK_SECONDS
    assert times.note(KEY, "1-1", answered=True) == 0


def test_many_machines_are_looked_at_more_rarely(clock: Clock) -> None:
    times = InspectionTimes(clock)
    for number in range(2000):
        times.note(("ns", f"m-{number}"), "1-1", answered=True)
    times.note(KEY, "1-1", answered=True)
    assert times.left(KEY, "1-1", known=True) == 2000 * EACH_SECONDS
    for number in range(2000):
        times.forget(("ns", f"m-{number}"))
    times.note(KEY, "1-1", answered=True)
    assert times.left(KEY, "1-1", known=True) == LOOK_SECONDS
