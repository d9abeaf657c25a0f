"""A figure is slower only by more than its noise, against the runs before; silent where the machines are slow."""

from __future__ import annotations

import pytest

from harness.validate.performance.comparison import FEWEST, NOW, PAST, band, compare, quantile, slower, student
from harness.validate.performance.figures import Figure, Key, by_key
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


Run = dict[Key, Figure]


def runs_of(*figures: list[Figure]) -> list[Run]:
    """Return runs, each with one figure of every series."""
    return [by_key(row) for row in zip(*figures, strict=True)]


def pods(values: list[float], calibrations: list[float] | None = None, where: str = "w-0") -> list[Figure]:
    given = calibrations or [0.0] * len(values)
    return [Figure("pod_start_p50", where, v, c) for v, c in zip(values, given, strict=True)]


def steady(seed: int, runs: int, factor: float = 1.0, spread: float = 0.03) -> list[float]:
    return series(normal(spread), runs, numbers(seed), factor=factor)


def test_a_figure_that_stays_slower_is_named_with_its_place_and_its_usual_value() -> None:
    *past, now = runs_of(
        pods(steady(1, PAST) + steady(2, NOW, 2.0)), pods(steady(3, PAST) + steady(4, NOW), where="w-1")
    )
    found = compare(now, past)
    (slow,) = found.slower
    assert slow.figure.where == "w-0"
    assert 1.8 < slow.ratio < 2.2
    assert found.compared == 2
    assert "slower: Pod start, p50 (w-0):" in found.told


def test_throughput_is_slower_when_it_is_less() -> None:
    rate = [Figure("dns_rate", "w-0", value) for value in steady(1, PAST, 1000.0) + steady(2, NOW, 500.0)]
    *past, now = runs_of(rate)
    (slow,) = compare(now, past).slower
    assert 1.8 < slow.ratio < 2.2
    *past, now = runs_of([Figure("dns_rate", "w-0", one.value * (2 if n >= PAST else 1)) for n, one in enumerate(rate)])
    assert not compare(now, past).slower


def test_noise_that_the_machines_share_is_taken_out() -> None:
    machine = steady(5, PAST + NOW, spread=0.3)
    own = steady(6, PAST, spread=0.02) + steady(7, NOW, 1.3, spread=0.02)
    *past, now = runs_of(pods([m * o for m, o in zip(machine, own, strict=True)], machine))
    (slow,) = compare(now, past).slower
    assert slow.was_calibrated
    assert 1.2 < slow.ratio < 1.4


def test_noise_of_a_calibration_that_has_nothing_to_do_with_a_figure_is_left_out() -> None:
    own = steady(8, PAST, spread=0.02) + steady(9, NOW, 1.3, spread=0.02)
    machine = steady(10, PAST, spread=0.1) + steady(11, NOW, spread=0.02)
    *past, now = runs_of(pods(own, machine))
    (slow,) = compare(now, past).slower
    assert not slow.was_calibrated


def test_slow_machines_are_no_slow_cluster() -> None:
    own, machine = steady(12, PAST) + steady(13, NOW, 3.0), steady(14, PAST, spread=0.1) + steady(15, NOW, 3.0)
    calibration = [Figure("machine_cpu", "w-0", value) for value in machine]
    *past, now = runs_of(pods(own, machine), calibration)
    assert [one.figure.name for one in compare(now, past).slower] == ["machine_cpu"]


def test_figures_with_too_few_runs_before_them_are_counted() -> None:
    *past, now = runs_of(pods(steady(1, 5)))
    found = compare(now, past)
    assert (found.compared, found.young, found.slower) == (0, 1, ())
    assert "1 have fewer than 10 runs before this one" in found.told


def test_a_run_without_a_figure_counts_for_the_others() -> None:
    *past, now = runs_of(pods(steady(1, PAST + NOW)), pods(steady(2, PAST + NOW), where="w-1"))
    del past[4]["pod_start_p50", "w-1"]
    assert compare(now, past).compared == 2


def test_what_exceeds_its_slo_is_said_from_the_first_run_on() -> None:
    figures = [
        Figure("pod_start_p99", "w-0", 6.0),
        Figure("api_p99", "GET resource", 0.9),
        Figure("api_p99", "PUT resource", 1.1),
        Figure("api_p99", "LIST cluster", 29.0),
        Figure("api_mean", "PUT resource", 99.0),
    ]
    found = compare(by_key(figures), [])
    assert [(one.name, one.where, most) for one, most in found.over] == [
        ("pod_start_p99", "w-0", 5.0),
        ("api_p99", "PUT resource", 1.0),
    ]
    assert "over the SLO of 5 s" in found.told


def test_false_alarms_stay_rare_with_calibrations() -> None:
    rng, wrong, count = numbers(17), 0, 0
    for _ in range(3):
        machine = series(normal(0.15), 40, rng)
        noisy = [[m * o for m, o in zip(machine, series(normal(0.08), 40, rng), strict=True)] for _ in range(40)]
        runs = runs_of(*(pods(values, machine, where=str(n)) for n, values in enumerate(noisy)))
        for last in range(PAST, 40):
            count += 1
            wrong += bool(compare(runs[last], runs[:last]).slower)
    assert wrong <= count / 50
