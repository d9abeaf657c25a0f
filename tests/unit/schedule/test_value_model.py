"""What values cost, in histories that are made up: cells that never ran are expected right, in time and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from statistics import mean, median

import pytest

from harness.model import Cell
from harness.paths import packaged_dir
from harness.plan.tiers import tier_cells
from harness.schedule.durations import estimate
from harness.schedule.value_model import Sample, errors, fitted
from harness.spec import load_spec

MOST_WRONG = 0.20
NOISE = 0.08  # of a run, as one machine after the other has it
SECONDS = {
    ("addons", "all"): 60.0,
    ("addons", "ingress"): 25.0,
    ("runtime", "crio-1.34"): 20.0,
    ("profile", "hardened"): 30.0,
}
FACTORS = {("os", "debian-12"): 1.15, ("ip", "dual"): 1.25, ("product", "operator"): 1.6, ("kubernetes", "1.34.4"): 0.9}
FACTORS |= {("scenario", "upgrade-hops"): 1.4, ("topology", "cp3-w2"): 1.2}


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    spec = load_spec(packaged_dir() / "matrix")
    return [cell for tier in ("nightly", "full", "lifecycle", "mr") for cell in tier_cells(spec, tier, "embedded")]


def cost(values: Mapping[str, str], usual: float) -> float:
    """Return what a cell takes in this made-up world: some values cost seconds, others a share of all."""
    seconds = usual + sum(more for value, more in SECONDS.items() if value in values.items())
    return seconds * math.prod(factor for value, factor in FACTORS.items() if value in values.items())


@pytest.mark.parametrize("slow", [1.0, 3.0])
def test_cells_that_never_ran_are_expected_within_a_fifth(cells: list[Cell], slow: float) -> None:
    random = Random(7)  # noqa: S311 - the same history each time
    samples = [
        Sample(c.values, slow * cost(c.values, estimate(c)) * random.lognormvariate(0, NOISE) / estimate(c))
        for c in cells
    ]
    wrong = errors(samples)
    assert len(wrong) == len(cells)
    assert mean(wrong) <= MOST_WRONG
    assert median(wrong) <= MOST_WRONG / 2


def test_memory_of_cells_that_never_ran_is_expected_within_a_fifth_and_seldom_above(cells: list[Cell]) -> None:
    random = Random(8)  # noqa: S311 - the same history each time
    samples = [Sample(c.values, cost(c.values, 900.0) * random.lognormvariate(0, NOISE)) for c in cells]
    assert mean(errors(samples)) <= MOST_WRONG
    model = fitted(samples)
    assert model is not None
    assert sum(s.figure <= model.high * model.expected(s.values) for s in samples) >= 0.94 * len(samples)


def test_a_few_runs_that_took_far_too_long_change_little(cells: list[Cell]) -> None:
    usual = [Sample(c.values, 1.0) for c in cells]
    model = fitted([Sample(s.values, 20.0) if n % 20 == 0 else s for n, s in enumerate(usual)])
    assert model is not None
    assert median(model.expected(s.values) for s in usual) == pytest.approx(1.0, abs=0.05)


def test_one_run_is_what_others_are_expected_to_be() -> None:
    model = fitted([Sample({"topology": "a", "scenario": "b"}, 2.0)])
    assert model is not None
    assert model.expected({"topology": "c", "scenario": "d"}) == pytest.approx(2.0)
    assert model.knows({"topology": "a", "scenario": "b"})
    assert not model.knows({"topology": "a", "scenario": "d"})


def test_nothing_is_known_of_nothing() -> None:
    assert fitted([]) is None
    assert fitted([Sample({"topology": "a"}, 0.0)]) is None
    assert errors([Sample({"topology": "a"}, 1.0)]) == []


def test_a_value_counts_where_most_runs_took_exactly_the_same() -> None:
    usual = [Sample({"topology": "one", "scenario": "fresh", "os": os}, 100.0) for os in ("a", "b", "c") * 5]
    other = [Sample({"topology": "one", "scenario": "fresh", "os": "d"}, 200.0) for _ in range(5)]
    model = fitted([*usual, *other])
    assert model is not None
    assert model.expected(usual[0].values) == pytest.approx(100, rel=0.1)
    assert model.expected(other[0].values) == pytest.approx(200, rel=0.2)
