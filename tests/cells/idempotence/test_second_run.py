"""A second run of a phase, right after the first, changes nothing; for phases of which the product says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cell.life import Life
from harness.check_result import MEASURED
from harness.model import Cell
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import second_run

Note = Callable[[str, object], None]


@pytest.mark.when(phase=second_run.is_idempotent)
def test_a_second_run_changes_nothing(
    life: Life, cell: Cell, phase: int, inspection: Inspection, record_property: Note
) -> None:
    before = second_run.look(inspection)
    outcome = life.again(phase)
    after = second_run.look(inspection)
    log = life.attempt.files.log(f"{cell.stage(phase)}-again")
    found = second_run.changes(inspection.expected.machines, outcome.changed, before, after)
    record_property(MEASURED, f"{len(found)} changes by a second run of {outcome.what}")
    require(
        found,
        claim=f"a second run of {outcome.what} changes nothing",
        look=f"the log of the second run: {log}",
        do=life.site.kind_of(cell).command(cell.phases[phase].name, inspection.guest.environment),
    )
