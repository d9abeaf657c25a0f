"""Two sets of variables as one."""

from __future__ import annotations

from harness.spec.merged import merged


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
