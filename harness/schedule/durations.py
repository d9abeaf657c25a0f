"""How long a cell will take, by what the history of cell runs says of this provider.

Only passed runs count, since a failure ends early or late. A history that is missing, slow or damaged is as good as
none: a run never waits for it or fails by it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from harness.errors import VmatrixError
from harness.history.store import store_of_runs
from harness.model import Cell
from harness.schedule.estimate import estimate
from harness.spec.renamed import PROVIDERS
from harness.spec.settings import Settings

if TYPE_CHECKING:
    from harness.schedule.passed_runs import PassedRun

log = logging.getLogger(__name__)
RECENT_OF_CELL = 5  # runs of the same cell
RECENT_OF_KIND = 20  # runs of cells of the same topology and scenario, or of any
KIND = ("topology", "scenario")  # axes: cells that are alike in these take about as long


@dataclass(frozen=True)
class Expectation:
    """How many seconds a cell will take, and what that is taken from."""

    seconds: float
    source: str


@dataclass(frozen=True)
class Durations:
    """What one provider's cells took, oldest first."""

    runs: tuple[PassedRun, ...] = ()

    @staticmethod
    def load(settings: Settings, environment: Mapping[str, str]) -> Durations:
        """Read what the history knows of the settings' provider."""
        try:
            content = store_of_runs(settings, environment).recent()
        except VmatrixError as error:
            log.warning("cells are ordered by estimates: the history cannot be read: %s", error.summary)
            content = b""
        return Durations.of(content, settings.provider)

    @staticmethod
    def of(content: bytes, provider: str) -> Durations:
        """Return what lines of the history say of a provider; lines that are no passed run's are left out."""
        if not content:
            return Durations()
        from harness.schedule.passed_runs import passed  # a project without a history does without them

        wanted = PROVIDERS.get(provider, provider)
        runs = {run.id: run for run in passed(content) if PROVIDERS.get(run.provider, run.provider) == wanted}
        return Durations(tuple(sorted(runs.values(), key=lambda run: run.started)))

    def expected(self, cell: Cell) -> Expectation:
        """Return what a cell will take.

        By its own runs; else by those of the same topology and scenario; else the estimate from its machines and
        phases, stretched as this provider's runs were in comparison with theirs: a slow infra is slow for all cells.
        """
        own = [run.seconds for run in self.runs if run.cell == cell.id][-RECENT_OF_CELL:]
        if own:
            return Expectation(median(own), f"{_counted(own)} of this cell")
        kind = kind_of(cell.values)
        alike = [run.seconds for run in self.runs if kind_of(run.axes) == kind][-RECENT_OF_KIND:]
        if alike:
            return Expectation(median(alike), f"{_counted(alike)} of {' '.join(kind)}")
        estimated, source = estimate(cell), "estimated from its machines and phases"
        stretches = [run.seconds / run.estimate for run in self.runs if run.estimate][-RECENT_OF_KIND:]
        if not stretches:
            return Expectation(estimated, source)
        stretch = median(stretches)
        return Expectation(estimated * stretch, f"{source}, times {stretch:.2f} as measured here")


def kind_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return in what cells are alike, by a cell's value on every axis."""
    return tuple(values.get(axis, "") for axis in KIND)


def _counted(values: Sequence[float]) -> str:
    return "the last run" if len(values) == 1 else f"the median of {len(values)} runs"
