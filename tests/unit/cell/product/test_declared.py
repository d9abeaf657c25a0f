"""A declared phase that is run again says what shows that controllers had something to do."""

from __future__ import annotations

from harness.cell.product.declared import new_traces


def test_another_generation_and_a_new_job_are_changes() -> None:
    before = {"generation of ClusterDeployment guest": "3", "Job guest-1": "uid-1"}
    assert new_traces(before, before) == ()
    after = {"generation of ClusterDeployment guest": "4", "Job guest-2": "uid-2"}
    assert new_traces(before, after) == ("generation of ClusterDeployment guest: 3, then 4", "Job guest-2 is new")
