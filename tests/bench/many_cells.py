"""What many cells cost the process that makes and reaps them: `python -m tests.bench.many_cells --help`.

Cells have all their objects, made and taken away by the harness itself, but no disk is filled and no machine started.
Prints the price as JSON. A process of its own, so that its memory is these cells' and nobody else's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.cell.existing import CellSelector, find
from harness.cell.provision import Attempt, create
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.cell.teardown import reap
from harness.errors import InfraError
from harness.events import Recorder
from harness.model import Cell
from tests.bench.ground import Ground, open_site, stand
from tests.bench.infra import peak_mib
from tests.chaos.cells import befalling, halted, without_disks
from tests.counting import Counting

AT_ONCE = 4
REAP_SECONDS = 600.0  # for each cell to go: against hanging


@dataclass(frozen=True)
class Price:
    """What cells cost: requests to make and to reap all of them, and of this process seconds, processor and memory."""

    made: int
    reaped: int
    seconds: float
    processor: float
    peak_mib: float


def price_of(ground: Ground, number: int, folder: Path) -> Price:
    """Make so many cells and reap them.

    Raises:
        InfraError: the infra cluster does not have all of them in between.
    """
    opened = open_site(ground)
    counting = Counting(opened.cluster)
    site = replace(opened, cluster=counting, project=halted(folder))
    run = ground.run_id()
    began, used = time.monotonic(), time.process_time()
    with befalling(ground.layout, [without_disks(run, "many-*")]):
        _make(site, run, [replace(ground.cell, id=f"many-{n}") for n in range(number)], folder)
        made, counting.counts = counting.counts, Counter()
        there = len(find(opened.cluster, CellSelector(run=run)))
        reap(counting, CellSelector(run=run), seconds=REAP_SECONDS)
    if there != number:
        raise InfraError(f"{number} cells were made, and {there} were there")
    seconds, processor = time.monotonic() - began, time.process_time() - used
    return Price(made.total(), counting.counts.total(), seconds, processor, peak_mib(os.getpid()) or 0.0)


def _make(site: Site, run: str, cells: list[Cell], folder: Path) -> None:
    def one(cell: Cell) -> None:
        create(site, Attempt(run, cell, 1, folder / cell.id), Steps(recorder, cell.id, 1))

    recorder = Recorder(folder)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, cells))


def main() -> int:
    """Print the price of cells on an infrastructure that is up."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many_cells", description=__doc__)
    parser.add_argument("--infra-name", required=True, help="of an embedded infrastructure that is up")
    parser.add_argument("--cells", type=int, required=True, help="how many")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ground = stand(given.infra_name, Path(folder), lambda line: print(line, file=sys.stderr))  # noqa: T201
        print(json.dumps(asdict(price_of(ground, given.cells, Path(folder)))))  # noqa: T201 - what it is for
    return 0


if __name__ == "__main__":
    sys.exit(main())
