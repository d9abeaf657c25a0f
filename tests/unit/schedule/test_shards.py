"""Shards: what is read, every cell once, in whatever order, balanced as longest first promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BadInput
from harness.model import Cell
from harness.schedule.shards import Shard, parse_shard, shard
from tests.unit.schedule.matrix import cell as cell_of

SECONDS = st.lists(st.integers(1, 1000), max_size=40)


def cells_taking(seconds: list[int]) -> dict[str, tuple[Cell, int]]:
    return {f"c{n}": (cell_of(f"c{n}", 1024), value) for n, value in enumerate(seconds)}


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
