"""What the playbooks are given: the phase's variables and the infra's, mappings merged."""

from __future__ import annotations

from harness.cell.variables import merged


def test_fragments_of_both_reach_the_playbooks() -> None:
    phase = {"cluster_kubelet_config": {"maxPods": 120, "evictionHard": {"memory.available": "5%"}}, "a": 1, "b": [1]}
    infra = {"cluster_kubelet_config": {"failSwapOn": False, "evictionHard": {"nodefs.available": "1%"}}, "b": [2]}
    assert merged(phase, infra) == {
        "cluster_kubelet_config": {
            "maxPods": 120,
            "evictionHard": {"memory.available": "5%", "nodefs.available": "1%"},
            "failSwapOn": False,
        },
        "a": 1,
        "b": [2],
    }
