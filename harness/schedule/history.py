"""How long cells took: one line per ended cell in one file of this machine, and what to expect of the next run.

Does not cover what went wrong in a cell; that is in its run's results. Every writer appends whole lines with O_APPEND,
so several runs may write at once; a torn line is left out when reading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from harness.model import Cell
from harness.paths import state_dir
from harness.record import now
from harness.schedule.estimate import estimate
from harness.spec.renamed import PROVIDERS

FILE = "history.jsonl"
MOST_BYTES = 8 * 2**20  # of the file's end are read: some 25 000 cells, far more than decide anything
RECENT_OF_CELL = 5  # runs of the same cell
RECENT_OF_KIND = 20  # runs of cells of the same topology and scenario, or of any
PASSED = "passed"
TOPOLOGY = "topology"


@dataclass(frozen=True)
class Ended:
    """One cell that ended: how many seconds it held its machines, and beside how many others at most.

    cell: its id.  estimate: seconds that were estimated for it without any history.
    outcome: "passed" or what else results call it.  finished: RFC 3339, UTC.
    """

    cell: str
    topology: str
    scenario: str
    provider: str
    seconds: float
    estimate: float
    outcome: str
    parallel: int
    finished: str


@dataclass(frozen=True)
class Expected:
    """How many seconds a cell will take, and what that is taken from."""

    seconds: float
    source: str


@dataclass(frozen=True)
class History:
    """What one provider's cells took, oldest first; only passed runs count, since a failure ends early or late."""

    path: Path
    provider: str
    runs: tuple[Ended, ...] = ()

    @staticmethod
    def load(provider: str, path: Path | None = None) -> History:
        """Read what is known of a provider; a missing or unreadable file is an empty history."""
        file = path if path is not None else state_dir() / FILE
        runs = (run for run in map(_parse, _tail(file)) if run is not None)
        return History(file, provider, tuple(run for run in runs if _present(run.provider) == _present(provider)))

    def append(self, cell: Cell, *, seconds: float, outcome: str, parallel: int) -> None:
        """Write an ended cell down.

        Args:
            seconds: from its admission until its namespace was gone.
            parallel: cells of the run that ran at the same time, itself included, at most.
        """
        ended = Ended(
            cell=cell.id,
            topology=cell.values.get(TOPOLOGY, ""),
            scenario=cell.scenario,
            provider=self.provider,
            seconds=round(seconds, 1),
            estimate=round(estimate(cell), 1),
            outcome=outcome,
            parallel=parallel,
            finished=now(),
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # the line feed in front ends a line that a killed writer left torn
            os.write(handle, ("\n" + json.dumps(asdict(ended)) + "\n").encode())
        finally:
            os.close(handle)

    def expected(self, cell: Cell) -> Expected:
        """Return what a cell will take.

        By its own runs; else by those of the same topology and scenario; else the estimate from its machines and
        phases, stretched as this provider's runs were in comparison with theirs: a slow infra is slow for all cells.
        """
        passed = [run for run in self.runs if run.outcome == PASSED]
        own = [run.seconds for run in passed if run.cell == cell.id][-RECENT_OF_CELL:]
        if own:
            return Expected(median(own), f"{_counted(own)} of this cell")
        kind = cell.values.get(TOPOLOGY, ""), cell.scenario
        alike = [run.seconds for run in passed if (run.topology, run.scenario) == kind][-RECENT_OF_KIND:]
        if alike:
            return Expected(median(alike), f"{_counted(alike)} of {' '.join(kind)}")
        estimated = estimate(cell)
        stretches = [run.seconds / run.estimate for run in passed][-RECENT_OF_KIND:]
        if not stretches:
            return Expected(estimated, "estimated from its machines and phases")
        stretch = median(stretches)
        return Expected(estimated * stretch, f"estimated from its machines and phases, times {stretch:.2f} as here")


def _counted(values: Sequence[float]) -> str:
    return "the last run" if len(values) == 1 else f"the median of {len(values)} runs"


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_BYTES))
            text = file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()
    return lines[1:] if size > MOST_BYTES else lines


def _parse(line: str) -> Ended | None:
    try:
        found = Ended(**json.loads(line))
    except (ValueError, TypeError):
        return None
    return found if _positive(found.seconds) and _positive(found.estimate) else None


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _present(provider: str) -> str:
    return PROVIDERS.get(provider, provider)
