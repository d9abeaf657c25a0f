"""The settings that a scenario changes are in force in what runs, were others before, and stay."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.commands import on_machine
from harness.validate.findings import require, together
from harness.validate.phases import settings
from harness.validate.phases.observation import Observation


def asks(cell: Cell, index: int) -> bool:
    """Tell whether the scenario requests settings in a phase or in an earlier one."""
    there = settings.requested_in(cell, index) or settings.not_looked_at(cell, index)
    return cell.phases[index].cluster and bool(there)


def asks_for_more(cell: Cell, index: int) -> bool:
    """Tell whether a phase is the first to request a setting, in an existing cluster."""
    there = index > 0 and cell.phases[index].cluster and cell.phases[index - 1].cluster
    return there and bool(settings.first_requested_in(cell, index))


@pytest.mark.when(phase=asks)
def test_settings_of_the_scenario_are_those_of_what_runs(cell: Cell, phase: int, after: Observation) -> None:
    requested, unseen = settings.requested_in(cell, phase), settings.not_looked_at(cell, phase)
    require(
        together(*([settings.not_in_force(requested, after)] if requested else []), unseen),
        claim="every setting of the scenario is in force wherever it applies",
        look="the phase's log: was the program restarted after its configuration changed?",
        do=on_machine(after.expected, "tr '\\0' '\\n' < /proc/$(pidof PROGRAM)/cmdline"),
    )


@pytest.mark.when(phase=asks_for_more)
def test_settings_were_others_before_the_phase(cell: Cell, phase: int, before: Observation) -> None:
    require(
        settings.not_changed(settings.first_requested_in(cell, phase), before),
        claim="every setting that the phase changes had another value before it; else the phase proves nothing",
        look="the phase's vars in matrix/scenarios.yml; playbooks/group_vars for the current defaults",
        do="give the setting another value in matrix/scenarios.yml",
    )
