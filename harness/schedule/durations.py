"""How long a cell will take, by what the history of cell runs says of this provider and of the cell's values.

Only passed runs count, since a failure ends early or late. A history that is missing, slow or damaged is as good as
none: a run never waits for it or fails by it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from harness.errors import VmatrixError
from harness.history.store import store_of_runs
from harness.model import Cell
from harness.schedule.value_model import Sample, ValueModel, fitted
from harness.spec.renamed import PROVIDERS
from harness.spec.settings import Settings

# Seconds. From the project's own runs on the embedded infrastructure (docs/benchmarks.md, "cell cp1-w1": 102 s, of
# which deploy 34.5, checks 47, teardown 6.4, provision 4.2, everything else 9.8), whole upgrades (about 200 for one
# control plane, most of it kubeadm's wait for each static pod) and joins (22 for a control plane, 2 for a worker).
# Phases that had not been run when this was written are set beside the most similar one; history corrects them.
AROUND = 20.0  # provision, collect, teardown and pytest's own, of one machine
MACHINE_AROUND = 2.0  # each machine more
CHECKS = 40.0  # the suites after each phase, on one machine
MACHINE_CHECKS = 4.0
FIRST = {"deploy": 30.0, "upgrade": 190.0, "recover": 60.0, "scale-out": 25.0, "reconfigure": 40.0, "reset": 15.0}
FIRST |= {"reboot": 60.0, "power-loss": 60.0}  # restarts of machines
CONTROL_PLANE = {"deploy": 22.0, "upgrade": 190.0, "recover": 10.0, "scale-out": 10.0, "reconfigure": 30.0}
OTHER = {"deploy": 2.0, "upgrade": 10.0, "reconfigure": 5.0}
UNKNOWN = 30.0  # a phase of somebody else's product
CONTROL_PLANES, WORKERS = "control_plane", "node"


def estimate(cell: Cell) -> float:
    """Return how many seconds a cell occupies its machines, from the first namespace to the last one gone."""
    machines = len(cell.machines)
    total = AROUND + MACHINE_AROUND * (machines - 1)
    for phase in cell.phases:
        there = [m for m in cell.machines if not phase.machines or m.name in phase.machines]
        control_planes = sum(CONTROL_PLANES in m.groups for m in there)
        once = phase.seconds
        if once is None:
            once = FIRST.get(phase.name, UNKNOWN)
            once += CONTROL_PLANE.get(phase.name, 0.0) * max(0, control_planes - 1)
            once += OTHER.get(phase.name, 0.0) * (len(there) - control_planes)
        total += once * (1 + len(phase.between))
        if phase.cluster:
            total += CHECKS + MACHINE_CHECKS * (len(there) - 1)
    return total


if TYPE_CHECKING:
    from harness.schedule.past_runs import PassedRun

log = logging.getLogger(__name__)
RECENT = 5  # runs of a cell


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
        from harness.schedule.past_runs import passed  # a project without a history does without them

        wanted = PROVIDERS.get(provider, provider)
        runs = {run.id: run for run in passed(content) if PROVIDERS.get(run.provider, run.provider) == wanted}
        return Durations(tuple(sorted(runs.values(), key=lambda run: run.started)))

    def expected(self, cell: Cell) -> Expectation:
        """Return what a cell will take.

        By the last runs of a cell with the same values; else by what its values cost in all runs, as a factor on the
        estimate from its machines and phases: so a slow infra is slow for all cells.
        """
        own = [run.seconds for run in self.runs if alike(run.cell, run.axes, cell)][-RECENT:]
        if own:
            return Expectation(median(own), f"{_counted(own)} of these values")
        estimated, source = estimate(cell), "estimated from its machines and phases"
        if self._model is None:
            return Expectation(estimated, source)
        factor = self._model.expected(cell.values)
        runs = "1 run" if self._model.samples == 1 else f"{self._model.samples} runs"
        return Expectation(estimated * factor, f"{source}, times {factor:.2f} by what its values cost in {runs}")

    @cached_property
    def _model(self) -> ValueModel | None:
        return fitted([Sample(run.axes, run.seconds / run.estimate) for run in self.runs if run.estimate])


def alike(cell: str, axes: Mapping[str, str], other: Cell) -> bool:
    """Tell whether a run was of a cell with the values of another: its record may be older than some axis."""
    return cell == other.id or (bool(axes) and axes == other.values)


def _counted(values: Sequence[float]) -> str:
    return "the last run" if len(values) == 1 else f"the median of {len(values)} runs"
