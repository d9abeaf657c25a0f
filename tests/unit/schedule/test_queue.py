"""In which order cells are tried."""

from __future__ import annotations

import pytest

from harness.errors import HarnessBug
from harness.schedule.queue import CellQueue
from tests.unit.schedule.matrix import cell


def test_the_longest_comes_first_then_the_one_with_more_memory() -> None:
    small, large, long = cell("small", 1024), cell("large", 2048), cell("long", 512)
    seconds = {"small": 10.0, "large": 10.0, "long": 99.0}
    queue = CellQueue([small, large, long], lambda c: seconds[c.id])
    assert [c.id for c in queue.waiting] == ["long", "large", "small"]


def test_a_cell_leaves_the_queue_once_and_the_rest_keep_their_places() -> None:
    first, second, third = cell("a", 4096), cell("b", 1024), cell("c", 512)
    queue = CellQueue([third, second, first], lambda c: 9.0 if c.id == "a" else 1.0)
    queue.take(second)
    assert queue.waiting == (first, third)
    with pytest.raises(HarnessBug):
        queue.take(second)
    assert len(queue) == 2
