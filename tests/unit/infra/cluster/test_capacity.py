"""Usable nodes, and what a host's machines need of the playbooks."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.infra.cluster.capacity import NodeUsage, PodUsage, for_machines, usable, usage_of
from harness.infra.guest_facts import HostKernel, guest_vars, look
from harness.kube import Cluster
from harness.kube.failures import Answer


def node(ready: str, *, unschedulable: bool = False) -> dict[str, Any]:
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    return {"spec": {"unschedulable": unschedulable}, "status": {"conditions": conditions}}


def test_only_ready_and_schedulable_nodes_count() -> None:
    assert usable(node("True"))
    assert not usable(node("Unknown"))
    assert not usable(node("True", unschedulable=True))
    assert not usable({"metadata": {}})


def labelled(name: str, label: str | None) -> dict[str, Any]:
    labels = {} if label is None else {"kubevirt.io/schedulable": label}
    return {"metadata": {"name": name, "labels": labels}, **node("True")}


def test_a_node_that_runs_pods_alone_has_no_room_for_machines() -> None:
    host, pods = labelled("host", "true"), labelled("pods", None)
    assert for_machines([host, pods]) == [host]
    assert for_machines([pods, labelled("other", "false")]) == [pods, labelled("other", "false")]


def test_a_modern_host_needs_little() -> None:
    found = guest_vars(HostKernel(unified_cgroups=True, may_raise_limits=True, swap=False))
    assert found["cluster_kubelet_config"] == {"cgroupDriver": "systemd"}
    assert found["cluster_containerd_systemd_cgroup"] is True
    assert found["cluster_containerd_restrict_oom_score_adj"] is False
    assert found["cluster_kubeadm_ignore_preflight_errors"] == ["SystemVerification", "NumCPU", "Mem"]


def test_an_old_host_s_properties_reach_the_playbooks() -> None:
    found = guest_vars(HostKernel(unified_cgroups=False, may_raise_limits=False, swap=True))
    kubelet = {"cgroupDriver": "cgroupfs", "failCgroupV1": False, "failSwapOn": False}
    assert found["cluster_kubelet_config"] == kubelet
    assert found["cluster_containerd_systemd_cgroup"] is False
    assert found["cluster_containerd_restrict_oom_score_adj"] is True
    assert "Swap" in found["cluster_kubeadm_ignore_preflight_errors"]


def test_this_host_can_be_looked_at() -> None:
    found = guest_vars(look())
    assert found["cluster_kube_proxy_config"] == {"conntrack": {"maxPerCore": 0, "min": 0}}
    heartbeat, election = (
        int(found["cluster_etcd_extra_args"][name]) for name in ("heartbeat-interval", "election-timeout")
    )
    assert 5 * heartbeat <= election, "etcd refuses to start otherwise"


MIB = 2**20
# From a kubelet of Kubernetes 1.36, cut down: containers, network, processor time and inodes left out.
SUMMARY = {
    "node": {"nodeName": "n", "memory": {"availableBytes": 2000 * MIB, "workingSetBytes": 500 * MIB}},
    "pods": [
        {
            "podRef": {"name": "p", "namespace": "ns", "uid": "pod-1"},
            "memory": {"usageBytes": 90 * MIB, "workingSetBytes": 40 * MIB + 1, "rssBytes": 30 * MIB},
            "volume": [
                {"name": "root", "usedBytes": 700 * MIB, "pvcRef": {"name": "cp-0", "namespace": "ns"}},
                {"name": "scratch", "usedBytes": 5 * MIB},
            ],
        },
        {"podRef": {"name": "q", "namespace": "ns", "uid": "pod-2"}},
    ],
}


class Api:
    """Answers for each node as it was told to."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers

    def send(self, method: str, path: str, **_: Any) -> Answer:
        node = path.removeprefix("/api/v1/nodes/").removesuffix("/proxy/stats/summary")
        return self.answers[node]


def answer(code: int, body: Any) -> Answer:
    return Answer(code, body, (), None, "", "application/json")


def test_amounts_are_rounded_up_and_volumes_without_a_claim_are_no_disks() -> None:
    api = Api(n=answer(200, SUMMARY))
    expected = NodeUsage(2000, {"pod-1": PodUsage(memory=41, kept=30, disk=700)})
    assert usage_of(cast(Cluster, api), ["n"]) == {"n": expected}


@pytest.mark.parametrize(("code", "body"), [(403, {"kind": "Status"}), (404, "not here"), (200, "a page"), (503, {})])
def test_a_node_that_does_not_tell_is_left_out(code: int, body: Any) -> None:
    api = Api(mute=answer(code, body), n=answer(200, SUMMARY))
    assert list(usage_of(cast(Cluster, api), ["mute", "n"])) == ["n"]
