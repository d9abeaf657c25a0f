"""With how much memory a cell's machines are admitted, by what machines with its values took on this provider.

Where nothing was measured, and on infra clusters whose profile says nothing of `measured_memory`, a machine counts by
the memory that it declares, and it never counts by more. Why, and what keeps this from taking more than there is:
docs/decisions/schedule-admission.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.errors import VmatrixError
from harness.history.store import store_of_runs
from harness.model import Cell
from harness.schedule.durations import RECENT, alike
from harness.schedule.value_model import Sample, ValueModel, fitted
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

        By the last runs of a cell with the same values: the most that each machine took. Else by what its values cost
        in all runs, where some had its topology and its scenario: what 95 % of the runs stayed below. Times the margin.
        Failed runs raise it and are not enough for it, since they may have ended early.
        """
        if self.others(cell):
            return CellSize({}, DECLARED)
        own = [run for run in self.runs if alike(run.cell, run.axes, cell)][-RECENT:]
        if passed := _passed(own):
            most = {
                machine.name: max(run.usage[machine.name].peak if machine.name in run.usage else 0 for run in own)
                for machine in cell.machines
            }
            return self._size(cell, most, f"the most in {_counted(passed)} of these values")
        if (passed := _passed(self.runs)) and self._known(cell):
            models = {machine.name: self._models.get(_role(machine.name)) for machine in cell.machines}
            most = {
                name: math.ceil(model.expected(cell.values) * model.high) if model is not None else 0
                for name, model in models.items()
            }
            return self._size(cell, most, f"what its values cost in {_counted(passed)}")
        return CellSize({}, DECLARED)

    def _known(self, cell: Cell) -> bool:
        return any(model.knows(cell.values) for model in self._models.values())

    @cached_property
    def _models(self) -> dict[str, ValueModel]:
        """Return what machines of each role took: in passed runs, and in failed ones where it was more."""
        passed, failed = self._samples(True), self._samples(False)
        models = {role: model for role, samples in passed.items() if (model := fitted(samples)) is not None}
        for role, samples in failed.items():
            more = [s for s in samples if role in models and s.figure > models[role].expected(s.values)]
            if more and (raised := fitted([*passed[role], *more])) is not None:
                models[role] = raised
        return models

    def _samples(self, passed: bool) -> dict[str, list[Sample]]:
        found: dict[str, list[Sample]] = {}
        for run in self.runs:
            if (run.outcome == "passed") == passed:
                for name, usage in run.usage.items():
                    found.setdefault(_role(name), []).append(Sample(run.axes, usage.peak))
        return found

    def of_all(self, cells: Iterable[Cell]) -> dict[str, Mapping[str, int]]:
        """Return what each of some cells is admitted with, by its id; without those that count as declared."""
        sizes = {cell.id: self.expected(cell).machines for cell in cells}
        return {cell: machines for cell, machines in sizes.items() if machines}

    def _size(self, cell: Cell, most: Mapping[str, int], source: str) -> CellSize:
        machines = {
            machine.name: min(machine.memory_mib, math.ceil(most[machine.name] * self.margin))
            for machine in cell.machines
            if most[machine.name]
        }
        return CellSize(machines, f"{source}, times {self.margin:g}")


def _role(machine: str) -> str:
    """Return what a machine is for, of a name such as cp-0."""
    return machine.rpartition("-")[0]


def _passed(runs: Sequence[MeasuredRun]) -> int:
    return sum(run.outcome == "passed" for run in runs)


def _counted(passed: int) -> str:
    return "the last run" if passed == 1 else f"the last {passed} runs"
