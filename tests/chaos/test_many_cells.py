"""Fifty cells' worth of objects: made and reaped by the harness itself, at a price per cell that does not grow."""

from __future__ import annotations

import gc
import secrets
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from harness.cell.existing import CellSelector, find
from harness.cell.life import Life
from harness.cell.provision import create
from harness.cell.teardown import reap
from harness.kube.resources import VM
from tests.chaos.cells import Ground, cell_of, halted, without_disks
from tests.counting import Counting

FEW, MANY = 10, 50
MACHINES = 2
AT_ONCE = 4
REAP_SECONDS = 600.0
# Requests per cell hold looks at what is not ready yet, of which a busy host sees more. A price that grows with the
# number of cells would be about five times as high with five times as many.
MADE_GROWS, REAPED_GROWS = 1.3, 1.6
MIB = 2**20


@dataclass
class Price:
    """What a number of cells cost: requests to make and to reap them, and the most memory that either took."""

    cells: int
    made: Counter[str] = field(default_factory=Counter)
    reaped: Counter[str] = field(default_factory=Counter)
    peak_mib: float = 0.0

    def each(self, counts: Counter[str]) -> float:
        """Return the requests of one kind of work per cell."""
        return counts.total() / self.cells

    def __str__(self) -> str:
        return (
            f"{self.cells} cells of {MACHINES} machines: {self.each(self.made):.1f} requests each to make, "
            f"{self.each(self.reaped):.1f} to reap ({dict(self.reaped)}), {self.peak_mib:.1f} MiB of Python objects"
        )


def measured(work: Callable[[], object]) -> float:
    """Do some work and return the most MiB of Python objects that it held at once."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


def price_of(ground: Ground, number: int) -> Price:
    """Make so many cells and reap them."""
    counting = Counting(ground.cluster)
    site = replace(ground.site(cluster=counting), project=halted(ground.folder))
    run = secrets.token_hex(3)
    lives = [ground.life(site, cell_of(MACHINES, cell=f"many-{n:02d}"), run) for n in range(number)]
    price = Price(number)

    def make(life: Life) -> None:
        create(site, life.attempt, life.steps)

    def make_all() -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(make, lives))

    with ground.scenario([without_disks(run, "many-*")]):  # no disk is made: nothing but objects
        price.peak_mib = measured(make_all)
        price.made, counting.counts = counting.counts, Counter()
        assert len(find(ground.cluster, CellSelector(run=run))) == number
        assert all(len(ground.cluster.list(VM, life.attempt.namespace).items) == MACHINES for life in lives[:3])
        chosen = CellSelector(run=run)
        price.peak_mib = max(price.peak_mib, measured(lambda: reap(counting, chosen, seconds=REAP_SECONDS)))
        price.reaped = counting.counts
    assert find(ground.cluster, CellSelector(run=run)) == []
    return price


@pytest.mark.row("F30")
def test_the_price_of_a_cell_does_not_grow_with_their_number(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = price_of(ground, FEW), price_of(ground, MANY)
    with capsys.disabled():
        print(f"\n{few}\n{many}")  # noqa: T201 - the figures are what this is for
    assert many.each(many.made) <= MADE_GROWS * few.each(few.made)
    assert many.each(many.reaped) <= REAPED_GROWS * few.each(few.reaped)
    assert many.peak_mib <= 2 * MANY / FEW * few.peak_mib
