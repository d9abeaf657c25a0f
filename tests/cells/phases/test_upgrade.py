"""An upgrade has changed every component that runs on every machine."""

from __future__ import annotations

import json

import pytest

from harness.model import Cell
from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import upgrade
from harness.validate.phases.observation import Observation


def upgrades(cell: Cell, index: int) -> bool:
    """Tell whether a phase changes the Kubernetes version of an existing cluster."""
    if index == 0 or not (cell.phases[index].cluster and cell.phases[index - 1].cluster):
        return False
    return cell.phases[index].values["kubernetes"] != cell.phases[index - 1].values["kubernetes"]


@pytest.mark.when(phase=upgrades)
def test_every_component_ran_the_old_version_before_and_runs_the_new_one(
    cell: Cell, phase: int, inspection: Inspection, before: Observation, after: Observation
) -> None:
    seen = json.dumps(upgrade.side_by_side(before, after), indent=1)
    (inspection.directory / f"versions-{cell.stage(phase)}.json").write_text(seen, encoding="utf-8")
    require(
        upgrade.not_upgraded(before, after),
        claim=f"every component ran Kubernetes {before.expected.kubernetes} before the phase and runs "
        f"{after.expected.kubernetes} after it, by each process's file, pod's image and API server's /version",
        look=f"checks/versions-{cell.stage(phase)}.json; logs/{cell.stage(phase)}.log: was the machine "
        "skipped? journalctl -u kubelet on it",
        do=on_machine(after.expected, "/proc/$(pidof PROGRAM)/exe --version"),
    )
