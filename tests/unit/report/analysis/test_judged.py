"""New or known, always or sometimes, since when, how often by chance, slower or not: on series that say it plainly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.analysis.series import Judged, Range, Rate, fixed, flaky, habit, series_of, since, streak, wilson
from harness.report.analysis.story import trend
from tests.unit.history.make import record


def series(letters: str) -> tuple[Judged, ...]:
    """Return a series: p good, f bad, anything else no verdict."""
    return tuple(Judged(night, letter == "f") for night, letter in enumerate(letters) if letter in "pf")


@pytest.mark.parametrize(
    ("letters", "wanted"),
    [
        ("", "never"),
        ("pppp", "never"),
        ("ppppf", "new"),
        ("pppff", "new"),
        ("f", "new"),
        ("ppfff", "always"),
        ("fff", "always"),
        ("pfppf", "sometimes"),
        ("pfppp", "sometimes"),
        ("f" + "p" * 10, "never"),
        ("f" + "p" * 9, "sometimes"),
        ("pf.f.f", "always"),
    ],
)
def test_a_habit_is_told_from_the_last_ten(letters: str, wanted: str) -> None:
    assert habit(series(letters)) == wanted


@pytest.mark.parametrize(
    ("letters", "wanted"),
    [
        ("pppp", None),
        ("pppf", Range(2, 3, 0)),
        ("ppff", Range(1, 2, 0)),
        ("pp..f.f", Range(1, 4, 2)),
        ("ff", Range(-1, 0, 0)),
        ("pfpf", Range(2, 3, 0)),
    ],
)
def test_a_failure_began_between_the_last_good_and_the_first_bad_night(letters: str, wanted: Range | None) -> None:
    assert since(series(letters)) == wanted


def test_it_is_fixed_only_the_night_after() -> None:
    found = {letters: fixed(series(letters)) for letters in ("fp", "fpp", "pp", "pf", "p", "f.p")}
    assert [letters for letters, told in found.items() if told] == ["fp", "f.p"]


def test_a_night_without_the_infrastructure_says_nothing_of_the_code() -> None:
    later = (record(4, outcome="failed"), record(5, outcome="failed", blame="infra"), record(6, outcome="failed"))
    records = [*(record(n) for n in range(4)), *later]
    found = series_of(list(enumerate(records)))
    assert since(found) == Range(3, 4, 0)
    assert streak(found) == 2


def test_what_fails_by_the_infrastructure_now_is_compared_with_its_own_kind() -> None:
    records = [record(0), record(1, outcome="failed"), *(record(n, outcome="failed", blame="infra") for n in (2, 3, 4))]
    found = series_of(list(enumerate(records)))
    assert (habit(found), since(found)) == ("always", Range(0, 2, 1))


@pytest.mark.parametrize("outcome", ["interrupted", "unfinished", "unchecked", "not started"])
def test_a_run_that_was_cut_off_is_no_verdict(outcome: str) -> None:
    records = [record(0), record(1, outcome=outcome), record(2)]
    assert [j.night for j in series_of(list(enumerate(records)))] == [0, 2]


def test_a_failure_in_quarantine_is_bad_all_the_same() -> None:
    assert habit(series_of([(0, record(0)), (1, record(1, outcome="quarantined"))])) == "new"


@pytest.mark.parametrize(
    ("letters", "failed", "n"),
    [
        ("p" * 20, 0, 20),
        ("ppfpppffpp", 3, 10),
        ("ppfffffpp", 0, 9),  # a regression and its repair
        ("ppppff", 0, 4),  # not over: counts neither way
        ("ppfp.fff", 1, 4),
        ("fff", 0, 0),
    ],
)
def test_only_what_went_away_by_itself_is_chance(letters: str, failed: int, n: int) -> None:
    found = flaky(series(letters))
    assert (found.failed, found.n) == (failed, n)


def test_a_pass_at_a_later_attempt_is_chance_too() -> None:
    assert flaky(series("pppp"), retried={2}).failed == 1


def test_recent_chance_weighs_more() -> None:
    assert flaky(series("p" * 30 + "fp")).rate > 2 * flaky(series("fp" + "p" * 30)).rate


def test_few_nights_are_not_enough() -> None:
    assert not flaky(series("pfp")).enough
    assert flaky(series("p" * 10)).enough
    assert flaky(()) == Rate(0.0, 0.0, 1.0, 0, 0)


def test_the_interval_is_wilsons() -> None:
    # the worked example of R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I: 81 of 263, score method
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0.0, 10)[0] == 0.0
    assert wilson(1.0, 10)[1] == pytest.approx(1.0)


@given(st.text("pf.", max_size=80))
def test_rates_and_their_intervals_are_in_order(letters: str) -> None:
    found = flaky(series(letters))
    assert 0 <= found.low <= found.rate + 1e-4
    assert found.rate <= found.high + 1e-4 <= 1 + 2e-4
    assert found.failed <= found.n <= 60


def test_a_step_that_takes_longer_is_notable() -> None:
    found = trend([100, 102, 98, 101, 99, 100, 103, 97, 140, 141, 139])
    assert found is not None
    assert (found.now, found.usual, found.n, found.n_now, found.notable) == (140, 100, 8, 3, True)
    assert found.ratio == 1.4


@pytest.mark.parametrize(
    "seconds",
    [
        [100, 180, 60, 150, 90, 170, 70, 150, 140, 150],  # it always varied
        [1.0] * 10 + [2.0] * 3,  # twice as long, and nobody notices
        [500.0] * 10 + [510.0] * 3,  # a fiftieth
        [140.0] * 10 + [100.0] * 3,  # faster
        [100.0] * 10 + [900.0, 100.0, 100.0],  # one outlier
    ],
)
def test_what_a_person_would_not_notice_is_not(seconds: list[float]) -> None:
    found = trend(seconds)
    assert found is not None
    assert not found.notable


def test_of_few_runs_nothing_is_said() -> None:
    assert trend([100.0] * 7) is None
    assert trend([]) is None
