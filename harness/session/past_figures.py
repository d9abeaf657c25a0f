"""The figures of a cell's runs: those that this one has measured so far, and those of the runs before.

Runs before are those in the history, of the same cell, phase and infra profile. For a cell that was kept, earlier
checks of it count, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.history.lines import once, parse
from harness.history.record import Record
from harness.history.store import store_of_runs
from harness.model import Cell
from harness.report.analysis.story import of_record
from harness.report.records import records_of
from harness.report.results import load
from harness.rundir import RESULTS
from harness.session.plan import RunPlan
from harness.session.selection import profile_of
from harness.validate.performance.figures import Figure, Key, by_key, carried_in


def figures_of_run(plan: RunPlan, cell: Cell, stage: str) -> dict[Key, Figure]:
    """Return what the checks of a run have measured after a phase of a cell so far."""
    loaded = next((entry for entry in load(plan.directory).cells if entry.id == cell.id), None)
    checks = loaded.last_checks if loaded is not None else ()
    return by_key(figure for check in checks if check.stage == stage for figure in carried_in(check.properties))


def past_figures(plan: RunPlan, cell: Cell, stage: str) -> list[dict[Key, Figure]]:
    """Return what the runs before have measured, oldest first, each by key.

    Raises:
        BadInput, InfraError: the history cannot be read.
    """
    settings = plan.project.settings
    content = store_of_runs(settings, os.environ).recent()
    kept = [line.record for line in parse(content) if line.record is not None]
    before = _earlier_checks(plan)
    infra = profile_of(plan.project.spec, settings)
    runs = [r for r in once([*kept, *before]) if r.cell == cell.id and r.infra == infra and stage in r.figures]
    return [of_record(record, stage) for record in runs]


def _earlier_checks(plan: RunPlan) -> list[Record]:
    """Return the records of the earlier checks of a kept cell, in the folders beside this one's."""
    if plan.after is None or not plan.directory.name.isdecimal():
        return []
    number = int(plan.directory.name)
    before = (path for path in plan.directory.parent.iterdir() if path.name.isdecimal() and int(path.name) < number)
    return [record for path in before if _written(path) for record in records_of(path)]


def _written(path: Path) -> bool:
    return (path / RESULTS).is_file()
