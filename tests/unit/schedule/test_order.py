"""In which order cells are tried, what a run may hold, and how a plan is split over jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BadInput, HarnessBug
from harness.model import Cell
from harness.schedule.demand import Demand, PodRequest
from harness.schedule.estimate import estimate
from harness.schedule.limits import Limits
from harness.schedule.queue import Queue
from harness.schedule.shards import Shard, parse_shard, shard
from tests.unit.schedule.matrix import cell

SECONDS = st.lists(st.integers(1, 1000), max_size=40)


def cells_taking(seconds: list[int]) -> dict[str, tuple[Cell, int]]:
    return {f"c{n}": (cell(f"c{n}", 1024), value) for n, value in enumerate(seconds)}


def test_the_longest_comes_first_then_the_one_with_more_memory() -> None:
    small, large, long = cell("small", 1024), cell("large", 2048), cell("long", 512)
    seconds = {"small": 10.0, "large": 10.0, "long": 99.0}
    queue = Queue([small, large, long], lambda c: seconds[c.id])
    assert [c.id for c in queue.waiting] == ["long", "large", "small"]


def test_one_that_does_not_fit_does_not_hold_up_the_rest_and_keeps_its_place() -> None:
    first, second = cell("a", 4096), cell("b", 1024)
    queue = Queue([first, second], lambda c: 9.0 if c.id == "a" else 1.0)
    assert queue.next(lambda c: c.id == "b") == second
    assert queue.next(lambda c: False) is None
    assert queue.waiting == (first,)
    queue.take(first)
    assert len(queue) == 0
    queue.put_back(second)
    assert queue.next(lambda c: True) == second


def test_a_cell_starts_once() -> None:
    queue = Queue([cell("a")], estimate)
    queue.take(cell("a"))
    with pytest.raises(HarnessBug):
        queue.take(cell("a"))
    queue.put_back(cell("a"))
    with pytest.raises(HarnessBug):
        queue.put_back(cell("a"))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(memory_mib=2999), "3000 MiB of memory, its limit is 2999"),
        (Limits(cpus=0.59), "0.6 CPUs"),
        (Limits(machines=2), "3 machines"),
        (Limits(cells=1), "2 cells"),
        (Limits(3000, 0.6, 3, 2), ""),
        (Limits(), ""),
    ],
)
def test_limits_count_all_that_a_run_holds(limits: Limits, words: str) -> None:
    held, wanted = Demand((PodRequest(1000, 200),) * 2), Demand((PodRequest(1000, 200),))
    said = limits.refusal([held], wanted)
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    "text", ["", "1", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/2/3", "1/99999", "\u0661/\u0662", "1.0/2"]
)
def test_what_is_no_shard_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_shard(text)
    assert caught.value.exit_code == 2
    assert "2/4" in caught.value.hint


def test_a_shard_is_read_as_it_is_written() -> None:
    assert str(parse_shard(" 2/4 ")) == "2/4"


@given(SECONDS, st.integers(1, 7))
def test_all_shards_together_are_every_cell_once(seconds: list[int], count: int) -> None:
    given_cells = cells_taking(seconds)
    cells = [c for c, _ in given_cells.values()]
    parts = [shard(cells, Shard(index + 1, count), lambda c: given_cells[c.id][1]) for index in range(count)]
    assert sorted(c.id for part in parts for c in part) == sorted(c.id for c in cells)
    assert all([c.id for c in part] == [c.id for c in cells if c in part] for part in parts)


@given(SECONDS, st.integers(1, 7), st.randoms(use_true_random=False))
def test_a_shard_does_not_depend_on_the_order_of_the_plan(seconds: list[int], count: int, random: object) -> None:
    given_cells = cells_taking(seconds)
    cells = [c for c, _ in given_cells.values()]
    shuffled = list(cells)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for index in range(1, count + 1):
        parts = [shard(some, Shard(index, count), lambda c: given_cells[c.id][1]) for some in (cells, shuffled)]
        assert {c.id for c in parts[0]} == {c.id for c in parts[1]}


@given(SECONDS, st.integers(1, 7))
def test_shards_are_balanced_as_well_as_longest_first_promises(seconds: list[int], count: int) -> None:
    given_cells = cells_taking(seconds)
    cells = [c for c, _ in given_cells.values()]
    loads = [
        sum(given_cells[c.id][1] for c in shard(cells, Shard(i + 1, count), lambda c: given_cells[c.id][1]))
        for i in range(count)
    ]
    # one more than any other job only by the last cell that was put there
    assert max(loads) - min(loads) <= max(seconds, default=0)


def test_more_machines_and_more_phases_take_longer() -> None:
    small, larger = cell("a", 2048), cell("b", 2048, 1536, 1536)
    upgraded = cell("c", 2048, scenario="upgrade")
    assert 60 < estimate(small) < estimate(larger) < estimate(upgraded)
    assert estimate(cell("d", 2048, scenario="never-heard-of")) > estimate(small)
