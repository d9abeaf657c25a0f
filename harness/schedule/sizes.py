"""With how much memory a cell's machines are admitted, by what the history says that they took on this provider.

Where nothing was measured, and on infra clusters whose profile says nothing of `measured_memory`, a machine counts by
the memory that it declares, and it never counts by more. Why, and what keeps this from taking more than there is:
docs/decisions/schedule-admission.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import VmatrixError
from harness.history.store import store_of_runs
from harness.model import Cell
from harness.schedule.durations import RECENT_OF_CELL, RECENT_OF_KIND, kind_of
from harness.spec.models.space import MeasuredMemory
from harness.spec.renamed import PROVIDERS
from harness.spec.settings import Settings

if TYPE_CHECKING:
    from harness.schedule.past_runs import MeasuredRun

log = logging.getLogger(__name__)
DECLARED = "as its machines declare"


@dataclass(frozen=True)
class CellSize:
    """The memory (MiB) that each machine of a cell is admitted with, by its name, and what that is taken from.

    Machines that are not in it count by what they declare.
    """

    machines: Mapping[str, int]
    source: str

    def memory_mib(self, cell: Cell) -> int:
        """Return the memory of all machines of the cell."""
        return sum(self.machines.get(machine.name, machine.memory_mib) for machine in cell.machines)


@dataclass(frozen=True)
class Sizes:
    """What one provider's machines took, oldest run first.

    margin: the factor on it.  others: tells the cells whose machines somebody else makes, by what these declare.
    """

    runs: tuple[MeasuredRun, ...] = ()
    margin: float = 1.0
    others: Callable[[Cell], bool] = lambda _: False

    @staticmethod
    def load(settings: Settings, environment: Mapping[str, str], rule: MeasuredMemory | None) -> Sizes:
        """Read what the history knows of the settings' provider; nothing without a rule of its infra profile."""
        if rule is None:
            return Sizes()
        try:
            content = store_of_runs(settings, environment).recent()
        except VmatrixError as error:
            log.warning("cells are admitted by declared memory: the history cannot be read: %s", error.summary)
            content = b""
        return Sizes.of(content, settings.provider, rule)

    @staticmethod
    def of(content: bytes, provider: str, rule: MeasuredMemory | None) -> Sizes:
        """Return what lines of the history say of a provider; lines without a measurement are left out."""
        if rule is None or not content:
            return Sizes()
        from harness.schedule.past_runs import measured  # a project without a history does without them

        wanted = PROVIDERS.get(provider, provider)
        runs = {run.id: run for run in measured(content) if PROVIDERS.get(run.provider, run.provider) == wanted}
        return Sizes(tuple(sorted(runs.values(), key=lambda run: run.started)), rule.margin)

    def expected(self, cell: Cell) -> CellSize:
        """Return what a cell is admitted with.

        By the last runs of the same cell, else by those of the same topology and scenario: the most that each machine
        took, times the margin. Failed runs raise it and are not enough for it, since they may have ended early.
        """
        if self.others(cell):
            return CellSize({}, DECLARED)
        own = [run for run in self.runs if run.cell == cell.id][-RECENT_OF_CELL:]
        if passed := _passed(own):
            return self._size(cell, own, f"{_counted(passed)} of this cell")
        kind = kind_of(cell.values)
        alike = [run for run in self.runs if kind_of(run.axes) == kind][-RECENT_OF_KIND:]
        if passed := _passed(alike):
            return self._size(cell, alike, f"{_counted(passed)} of {' '.join(kind)}")
        return CellSize({}, DECLARED)

    def of_all(self, cells: Iterable[Cell]) -> dict[str, Mapping[str, int]]:
        """Return what each of some cells is admitted with, by its id; without those that count as declared."""
        sizes = {cell.id: self.expected(cell).machines for cell in cells}
        return {cell: machines for cell, machines in sizes.items() if machines}

    def _size(self, cell: Cell, runs: Sequence[MeasuredRun], source: str) -> CellSize:
        most = {
            machine.name: max(run.usage[machine.name].peak if machine.name in run.usage else 0 for run in runs)
            for machine in cell.machines
        }
        machines = {
            machine.name: min(machine.memory_mib, math.ceil(most[machine.name] * self.margin))
            for machine in cell.machines
            if most[machine.name]
        }
        return CellSize(machines, f"the most in {source}, times {self.margin:g}")


def _passed(runs: Sequence[MeasuredRun]) -> int:
    return sum(run.outcome == "passed" for run in runs)


def _counted(passed: int) -> str:
    return "the last run" if passed == 1 else f"the last {passed} runs"
