""""""

from __future__ import annotations

from harness.operator.controllers.machine import FINE, TROUBLE, ProbeTimes

KEY = ("ns", "m-0")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pauses(times: ProbeTimes, clock: Clock, *, fine: bool, count: int) -> list[float]:
    """Return the pauses between looks at one machine that always end the same."""
    found = []
    for _ in range(count):
        times.note(KEY, 1, fine=fine)
        found.append(times.left(KEY, 1, fine=fine))
        clock.now += found[-1]
        assert times.left(KEY, 1, fine=fine) == 0
    return found


def test_looks_become_rare_at_a_machine_that_stays_as_it_is() -> None:
    clock = Clock()
    assert pauses(ProbeTimes(clock), clock, fine=False, count=8) == [5, 10, 20, 40, 80, 160, 300, 300]
    assert pauses(ProbeTimes(clock), clock, fine=True, count=6) == [60, 60, 120, 240, 480, 900]


def test_a_change_is_looked_at_soon_again() -> None:
    clock = Clock()
    times = ProbeTimes(clock)
    pauses(times, clock, fine=True, count=6)
    times.note(KEY, 1, fine=False)
    assert times.left(KEY, 1, fine=False) == TROUBLE.first
    pauses(times, clock, fine=False, count=6)
    times.note(KEY, 2, fine=False)
    assert times.left(KEY, 2, fine=False) == TROUBLE.first


def test_a_pool_of_any_size_costs_an_idle_manager_two_requests_a_minute() -> None:
    clock = Clock()
    times = ProbeTimes(clock)
    for number in range(200):
        times.note(("ns", f"m-{number}"), 1, fine=True)
    looks_a_minute = 200 * 60 / times.left(("ns", "m-0"), 1, fine=True)
    assert looks_a_minute <= 1


def test_after_a_restart_what_the_object_says_counts_as_a_look() -> None:
    clock = Clock()
    times = ProbeTimes(clock)
    assert times.left(KEY, 1, fine=True) == max(FINE.first, FINE.each)
    times.forget(KEY)
    assert times.left(KEY, 1, fine=False) == TROUBLE.first
