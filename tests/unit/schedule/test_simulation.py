"""Admission and queue over time: nothing is ever overcommitted, each cell starts once, none waits for ever."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model import Cell
from harness.schedule.placement import Limits, all_fit, demand_of
from tests.unit.schedule.matrix import cell, node
from tests.unit.schedule.simulation import Overcommitted, SimulatedRun, World

SIZES = (1024, 1536, 2048)
SHAPES = st.lists(st.sampled_from(SIZES), min_size=1, max_size=4)
PLANS = st.lists(st.tuples(SHAPES, st.integers(1, 600)), min_size=1, max_size=8)
NODES = st.lists(st.integers(6000, 12000), min_size=1, max_size=3)
RANDOM = st.randoms(use_true_random=False)


def world(sizes: list[int], random: Random) -> World:
    return World(tuple(node(f"n{n}", size, millicpus=2000) for n, size in enumerate(sizes)), random)


def steady() -> Random:
    return Random(1)  # noqa: S311 - the same every time


def plan(prefix: str, shapes: Sequence[tuple[list[int], float]]) -> tuple[list[Cell], dict[str, float]]:
    cells = [cell(f"{prefix}{n}", *machines) for n, (machines, _) in enumerate(shapes)]
    return cells, {c.id: float(seconds) for c, (_, seconds) in zip(cells, shapes, strict=True)}


@settings(deadline=None, max_examples=25)
@given(st.lists(PLANS, min_size=1, max_size=3), NODES, st.integers(0, 2000), RANDOM)
def test_runs_share_an_infra_without_overcommit_and_every_cell_starts_once(
    plans: list[list[tuple[list[int], int]]], sizes: list[int], patience: int, random: Random
) -> None:
    there = world(sizes, random)
    for number, shapes in enumerate(plans):
        cells, seconds = plan(f"r{number}-", shapes)
        cells = [c for c in cells if all_fit(there.nodes, demand_of(c).pods)]
        SimulatedRun(there, f"r{number}", cells, seconds, patience=float(patience))
    there.play()  # raises Overcommitted
    for run in there.runs:
        assert set(run.ended) == set(run.started) == {c.id for c in run.cells}
    assert there.pods == []
    assert there.shelf.book.reservations == there.shelf.book.claims == ()
    assert not there.shelf.book.beats


@settings(deadline=None, max_examples=15)
@given(PLANS, st.integers(1, 4), RANDOM)
def test_a_run_never_holds_more_than_its_limits(shapes: list[tuple[list[int], int]], most: int, random: Random) -> None:
    cells, seconds = plan("c", shapes)
    plenty = World((node("n0", 50000),), random)
    run = SimulatedRun(plenty, "r", cells, seconds, limits=Limits(cells=most))
    run.world.play()
    assert len(run.ended) == len(cells)
    assert run.most <= most
    assert run.most == min(most, len(cells))


def crowd(patience: float) -> tuple[SimulatedRun, float]:
    """Return a run with one large cell among another's endless small ones, and when the last of those ended."""
    there = world([6000], steady())
    small, seconds = plan("small", [([1024], 100 + n * n % 97 / 13) for n in range(50)])  # hardly two end at once
    crowding = SimulatedRun(there, "crowd", small, seconds, patience=patience)
    large = SimulatedRun(there, "large", [cell("large", 2048, 1536)], {"large": 100.0}, patience=patience)
    there.play()
    return large, max(crowding.ended.values())


def test_a_large_cell_does_not_wait_longer_than_patience_and_what_ran_then() -> None:
    large, _ = crowd(patience=600.0)
    assert 600 <= large.started["large"] <= 600 + 108 + 20 + 30


def test_without_patience_it_would_wait_for_the_last_of_the_others() -> None:
    large, end = crowd(patience=float("inf"))
    assert large.started["large"] >= end - 2 * 128


def limited(patience: float) -> tuple[SimulatedRun, float]:
    """Return a run that may hold four machines: two for long, three for large, one for each of many small cells."""
    there = world([100000], steady())
    small, seconds = plan("c", [([1024], 200 + n % 7) for n in range(60)])
    cells = [cell("long", 1024, 1024), cell("large", 1024, 1024, 1024), *small]
    taking = {**seconds, "long": 1000.0, "large": 900.0}
    run = SimulatedRun(there, "r", cells, taking, limits=Limits(machines=4), patience=patience)
    there.play()
    return run, max(run.ended[c.id] for c in small)


def test_within_its_own_limits_a_run_keeps_no_cell_waiting_for_ever_either() -> None:
    run, _ = limited(patience=600.0)
    assert run.started["large"] <= run.ended["long"] + 30
    run, end = limited(patience=float("inf"))
    assert run.started["large"] >= end - 2 * 226


def test_the_simulation_notices_an_overcommit() -> None:
    there = world([3000], steady())
    run = SimulatedRun(there, "r", [cell("a", 1536), cell("b", 1536)], {"a": 9.0, "b": 9.0})
    there.look = lambda: type(World.look(there))(World.look(there).nodes, ())  # type: ignore[method-assign]
    run.admission._ledger.change(lambda book: book)  # a reservation that nobody keeps
    run.fill()
    there.shelf.book = type(there.shelf.book)()
    run.fill()
    there.look = World.look.__get__(there)  # type: ignore[method-assign]
    with pytest.raises(Overcommitted):
        there.play()
