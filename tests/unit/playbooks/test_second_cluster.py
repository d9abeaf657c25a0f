"""A control plane begins a cluster only where a run looks at all of them: one that is left out may have a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.playbooks.playbook_files import check_refusal, run_here

LEFT_OUT = "cp-0 would begin a cluster, and this run is not for cp-1, cp-2, which may have"
# By what the run is for: how the first control plane is refused, "" where it is not.
RUNS: dict[str, str] = {"cp-0": LEFT_OUT, "cp-0,w-0": LEFT_OUT, "cp-0,cp-1,cp-2": "", "all": ""}


@pytest.mark.parametrize("limit", RUNS)
def test_no_cluster_is_begun_while_control_planes_are_left_out(tmp_path: Path, limit: str) -> None:
    control_planes = ["cp-0", "cp-1", "cp-2"]
    given = {"control_plane_control_planes": control_planes, "control_plane_others": []}
    begin = {"ansible.builtin.include_role": {"name": "control_plane", "tasks_from": "begin"}, "vars": given}
    play = {"hosts": ":".join(control_planes), "tasks": [{**begin, "when": "inventory_hostname == 'cp-0'"}]}
    # Somebody else's kubeadm has ended meanwhile, and has made the machine a control plane.
    said = run_here(
        tmp_path, [play], {"flock": "exit 0"}, ["--limit", limit], **{name: {} for name in (*control_planes, "w-0")}
    )
    check_refusal(said, "cp-0", RUNS[limit], *(["include all control planes"] if RUNS[limit] else []))
    assert "TASK [control_plane : Refuse to begin another cluster]" in said or RUNS[limit]
