"""Data outlive every phase but those that begin a new cluster; a restored backup has what it was made of."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate import marks
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.witness import Witness


@pytest.mark.when(phase=marks.data_expected)
def test_data_are_there_after_the_phase(cell: Cell, phase: int, inspection: Inspection, witness: Witness) -> None:
    witness.record(phase).need(witness.marks)
    require(
        marks.lost_marks(cell, phase, witness.marks, marks.found(inspection.api)),
        claim="what was written into the cluster before the phase (or before the backup that it restores) is there",
        look="etcd's logs: did a member begin with an empty data directory? the role etcd_restore in the phase's log",
        do=f"kubectl --kubeconfig kubeconfig -n {marks.LIFE} get configmaps -o yaml",
    )


@pytest.mark.when(phase=marks.data_of_another_cluster)
def test_a_new_cluster_has_no_data_of_the_one_before(
    cell: Cell, phase: int, inspection: Inspection, witness: Witness
) -> None:
    require(
        marks.old_marks(cell, phase, witness.marks, marks.found(inspection.api)),
        claim="nothing is there that was written into the cluster before the reset",
        look="the role reset in the log of the phase before: was etcd's data directory left behind?",
        do=f"kubectl --kubeconfig kubeconfig -n {marks.LIFE} get configmaps -o yaml",
    )
