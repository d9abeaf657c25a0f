"""Data outlive every phase but those that begin a new cluster; a restored backup has what it was made of."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.inspection import Inspection
from harness.validate.judge.mismatch import require
from harness.validate.phases import data
from harness.validate.phases.witness import Witness


@pytest.mark.when(phase=data.data_expected)
def test_data_are_there_after_the_phase(cell: Cell, phase: int, inspection: Inspection, witness: Witness) -> None:
    witness.record(phase).need(witness.marks)
    require(
        data.lost_marks(cell, phase, witness.marks, data.found(inspection.api)),
        claim="what was written into the cluster before the phase (or before the backup that it restores) is there",
        look="etcd's logs: did a member begin with an empty data directory? the role etcd_restore in the phase's log",
        do=f"kubectl --kubeconfig kubeconfig -n {data.LIFE} get configmaps -o yaml",
    )


@pytest.mark.when(phase=data.data_of_another_cluster)
def test_a_new_cluster_has_no_data_of_the_one_before(
    cell: Cell, phase: int, inspection: Inspection, witness: Witness
) -> None:
    require(
        data.old_marks(cell, phase, witness.marks, data.found(inspection.api)),
        claim="nothing is there that was written into the cluster before the reset",
        look="the role reset in the log of the phase before: was etcd's data directory left behind?",
        do=f"kubectl --kubeconfig kubeconfig -n {data.LIFE} get configmaps -o yaml",
    )
