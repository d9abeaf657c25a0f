"""How long a cell takes that nobody has ever run."""

from __future__ import annotations

from harness.schedule.estimate import estimate
from tests.unit.schedule.matrix import cell


def test_more_machines_and_more_phases_take_longer() -> None:
    small, larger = cell("a", 2048), cell("b", 2048, 1536, 1536)
    upgraded = cell("c", 2048, scenario="upgrade")
    assert 60 < estimate(small) < estimate(larger) < estimate(upgraded)
    assert estimate(cell("d", 2048, scenario="never-heard-of")) > estimate(small)
