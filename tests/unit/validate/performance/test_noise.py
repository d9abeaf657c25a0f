"""A figure is slower only by more than its noise: how often that is said wrongly, and how soon it is said rightly."""

from __future__ import annotations

import pytest

from harness.validate.performance.noise import FEWEST, NOW, PAST, band, quantile, slower, student
from tests.unit.validate.performance.spreads import Noise, heavy, normal, numbers, odd, series

FIGURES = 60
RUNS = 40  # of one history


def alarms(noise: Noise, histories: int) -> tuple[int, int]:
    """Return in how many runs some figure was called slower although nothing had changed, and of how many."""
    rng, wrong, all_runs = numbers(7), 0, 0
    for _ in range(histories):
        figures = [series(noise, RUNS, rng) for _ in range(FIGURES)]
        for run in range(FEWEST + NOW, RUNS + 1):
            all_runs += 1
            wrong += any(slower(one[:run], FIGURES) is not None for one in figures)
    return wrong, all_runs


@pytest.mark.parametrize("noise", [normal(0.03), normal(0.1), normal(0.3), heavy(0.05), heavy(0.15), odd(0.05)])
def test_nothing_is_called_slower_more_than_once_in_200_runs(noise: Noise) -> None:
    wrong, runs = alarms(noise, histories=14)
    assert runs >= 400
    assert wrong <= runs / 200


@pytest.mark.parametrize("noise", [normal(0.02), normal(0.05), heavy(0.03), odd(0.03)])
def test_a_slow_down_of_30_percent_is_found_within_three_runs(noise: Noise) -> None:
    rng, found, tries = numbers(3), 0, 200
    for _ in range(tries):
        runs = series(noise, PAST, rng) + series(noise, NOW, rng, factor=1.3)
        found += slower(runs, FIGURES) is not None
    assert found >= 0.85 * tries


def test_what_a_band_finds_is_found() -> None:
    rng, found, tries = numbers(5), 0, 200
    for _ in range(tries):
        before = series(normal(0.15), PAST, rng)
        usual = band(before, FIGURES)
        assert usual is not None
        runs = before + series(normal(0.15), NOW, rng, factor=usual.finds)
        found += slower(runs, FIGURES) is not None
    assert found >= 0.8 * tries


def test_a_slow_down_is_said_several_times() -> None:
    rng = numbers(11)
    runs = series(normal(0.03), PAST, rng)
    for after in range(5):
        runs += series(normal(0.03), 1, rng, factor=1.5)
        assert (slower(runs, FIGURES) is not None) is (after >= NOW - 1)


def test_what_stays_slow_becomes_usual() -> None:
    rng = numbers(11)
    runs = series(normal(0.03), PAST, rng) + series(normal(0.03), PAST + NOW, rng, factor=1.5)
    assert slower(runs, FIGURES) is None


def test_one_odd_run_is_not_enough_and_neither_are_two() -> None:
    assert slower([1.0, 1.01] * 10 + [1.0, 1.0, 40.0], FIGURES) is None
    assert slower([1.0, 1.01] * 10 + [1.0, 40.0, 40.0], FIGURES) is None
    found = slower([1.0, 1.01] * 10 + [30.0, 40.0, 50.0], FIGURES)
    assert found is not None
    assert found.ratio == pytest.approx(40.0, rel=0.01)


def test_with_too_few_runs_nothing_is_said() -> None:
    assert band([1.0] * (FEWEST - 1), FIGURES) is None
    assert slower([1.0] * (FEWEST - 1) + [9.0] * NOW, FIGURES) is None
    assert slower([1.0] * FEWEST + [9.0] * NOW, FIGURES) is not None


def test_a_difference_that_nobody_would_notice_is_none() -> None:
    assert slower([1.0] * PAST + [1.09] * NOW, 1) is None


def test_what_is_faster_is_not_slower() -> None:
    assert slower([1.0] * PAST + [0.1] * NOW, FIGURES) is None


def test_more_figures_have_a_wider_band() -> None:
    before = series(normal(0.1), PAST, numbers(1))
    few, many = band(before, 1), band(before, 1000)
    assert few is not None
    assert many is not None
    assert few.edge < many.edge


@pytest.mark.parametrize(
    ("chance", "degrees", "expected"),
    [(0.05, 5, 2.015), (0.05, 19, 1.729), (0.01, 10, 2.764), (0.005, 30, 2.750)],  # tables of the distribution
)
def test_students_t(chance: float, degrees: float, expected: float) -> None:
    assert student(chance, degrees) == pytest.approx(expected, rel=0.01)


def test_a_quantile_lies_between_two_values() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert quantile([7.0], 0.99) == 7.0
