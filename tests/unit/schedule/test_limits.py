"""What a run may hold at once."""

from __future__ import annotations

import pytest

from harness.schedule.demand import Demand, PodRequest
from harness.schedule.limits import Limits


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
