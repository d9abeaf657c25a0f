"""Shards: the cells of one job, where several jobs share a plan; by `--shard I/N`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import BadInput
from harness.model import Cell
from harness.schedule.durations import estimate

HINT = "write I/N with 1 <= I <= N, as in --shard 2/4: the second of four"
MOST_DIGITS = 4


@dataclass(frozen=True)
class Shard:
    """One part of several; the first has index 1."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard:
    """Read "I/N"; BadInput when it is not that, or I is not one of 1 to N."""
    match = re.fullmatch(rf"([0-9]{{1,{MOST_DIGITS}}})/([0-9]{{1,{MOST_DIGITS}}})", text.strip())
    if match is None:
        raise BadInput(f"{text!r} is not a shard", hint=HINT)
    index, count = (int(part) for part in match.groups())
    if not 1 <= index <= count:
        raise BadInput(f"shard {index} of {count} does not exist", hint=HINT)
    return Shard(index, count)


def shard(cells: Sequence[Cell], part: Shard, seconds: Callable[[Cell], float] = estimate) -> tuple[Cell, ...]:
    """Return the cells of one part, in the given order; a part may be empty when there are more parts than cells.

    Longest first, each to the part that has least so far (LPT, at most 4/3 - 1/(3n) of the best split). All parts
    together are all cells, each once, as long as every job splits the same cells by the same `seconds`: hence the
    estimate and not one machine's history.
    """
    loads = [0.0] * part.count
    mine = set()
    for cell in sorted(cells, key=lambda cell: (-seconds(cell), cell.id)):
        lightest = loads.index(min(loads))
        loads[lightest] += seconds(cell)
        if lightest == part.index - 1:
            mine.add(cell.id)
    return tuple(cell for cell in cells if cell.id in mine)
