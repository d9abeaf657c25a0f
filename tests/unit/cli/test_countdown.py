"""How many are gone and how many are to go is said now and then, not for each."""

from __future__ import annotations

from harness.cli.countdown import SECONDS, Countdown


def test_it_says_where_it_stands_now_and_then_and_not_of_the_last() -> None:
    said = list[str]()
    moment = [0.0]
    countdown = Countdown(said.append, clock=lambda: moment[0])
    for at, left in ((1.0, 9), (SECONDS, 8), (SECONDS + 1, 7), (2 * SECONDS, 6), (4 * SECONDS, 0)):
        moment[0] = at
        countdown.told(left)
    assert said == ["2 cells are gone, 8 to go", "4 cells are gone, 6 to go"]
