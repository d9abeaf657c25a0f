"""A run's figures against those before: calibrated where that helps, silent where the machines themselves are slow."""

from __future__ import annotations

from harness.validate.performance.comparison import by_key, compare
from harness.validate.performance.figures import Figure, Key
from harness.validate.performance.noise import NOW, PAST
from tests.unit.validate.performance.spreads import normal, numbers, series

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
