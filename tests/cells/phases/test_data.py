"""Data survive every phase that keeps the cluster; a restored backup has the data from before it."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import data
from harness.validate.phases.monitor import PhaseMonitor


@pytest.mark.when(phase=data.data_expected)
def test_data_are_there_after_the_phase(cell: Cell, phase: int, inspection: Inspection, monitor: PhaseMonitor) -> None:
    monitor.record(phase).need(monitor.marks)
    require(
        data.lost_marks(cell, phase, monitor.marks, data.found_marks(inspection.api)),
        claim="data written into the cluster before the phase (or before the backup that it restores) still exist",
        look="etcd's logs: did a member start with an empty data directory? the role etcd_restore in the phase's log",
        do=f"kubectl --kubeconfig kubeconfig -n {data.LIFE} get configmaps -o yaml",
    )


@pytest.mark.when(phase=data.data_of_another_cluster)
def test_a_new_cluster_has_no_data_of_the_one_before(
    cell: Cell, phase: int, inspection: Inspection, monitor: PhaseMonitor
) -> None:
    require(
        data.old_marks(cell, phase, monitor.marks, data.found_marks(inspection.api)),
        claim="no data from before the reset are left",
        look="the role reset in the log of the phase before: was etcd's data directory left behind?",
        do=f"kubectl --kubeconfig kubeconfig -n {data.LIFE} get configmaps -o yaml",
    )
