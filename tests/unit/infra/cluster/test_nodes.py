"""Kubernetes quantities, usable nodes, and what a host's machines need of the playbooks."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from harness.infra.cluster.nodes import for_machines, quantity, usable
from harness.infra.host.guests import HostKernel, guest_vars, look


@pytest.mark.parametrize(
    ("text", "number"),
    [("2", "2"), ("1500m", "1.5"), ("2Gi", "2147483648"), ("1k", "1000"), ("0.5Mi", "524288"), ("1e3", "1000")],
)
def test_quantities_are_numbers(text: str, number: str) -> None:
    assert quantity(text) == Decimal(number)


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
