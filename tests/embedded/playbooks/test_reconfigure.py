"""Settings of a running cluster change machine by machine, and what is not changed is not restarted.

With etcd on machines of its own, which are rolled one after the other as well. Stacked etcd, and that settings outlive
an upgrade, are shown by test_upgrade.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.playbooks import running
from tests.embedded.playbooks.conftest import Bench, cell_of

TOPOLOGY = "cp2-etcd3-w1"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "containerd")
# These end by themselves, and begin anew, when the API server beside them is away while they lead: their lease ends.
LEADERS = {"kube-controller-manager", "kube-scheduler"}


@pytest.fixture(scope="module")
def place(bench: Bench) -> dict[str, int]:
    """Deploy two control planes with an etcd of three; return each machine's place."""
    cell = cell_of(TOPOLOGY)
    bench.boot(cell)
    bench.play()
    return {planned.name: number for number, planned in enumerate(cell.machines)}


def reconfigure(bench: Bench, **settings: Any) -> None:
    """Have other settings; a second time changes nothing."""
    running.give(bench, **settings)
    bench.play(entry="reconfigure", timeout=2400)
    assert {host.changed for host in bench.play(entry="reconfigure")} == {0}


def test_a_flag_of_the_api_server_restarts_nothing_else(bench: Bench, place: dict[str, int]) -> None:
    before = {name: running.began(bench, place[name], *PROGRAMS) for name in ("cp-0", "cp-1")}
    reconfigure(bench, cluster_apiserver_extra_args={"event-ttl": "2h0m0s"})

    for name in ("cp-0", "cp-1"):
        after = running.began(bench, place[name], *PROGRAMS)
        assert "--event-ttl=2h0m0s" in running.flags(bench, place[name], "kube-apiserver")
        restarted = {program for program in PROGRAMS if after[program] != before[name][program]}
        assert restarted - LEADERS == {"kube-apiserver"}, (before[name], after)


def test_a_parameter_of_etcd_reaches_every_member_and_leaves_a_quorum(bench: Bench, place: dict[str, int]) -> None:
    members = ("etcd-0", "etcd-1", "etcd-2")
    before = {name: running.began(bench, place[name], "etcd") for name in members}
    servers = {name: running.began(bench, place[name], "kube-apiserver") for name in ("cp-0", "cp-1")}
    reconfigure(bench, cluster_etcd_extra_args={"quota-backend-bytes": "4294967296"})

    for name in members:
        assert "--quota-backend-bytes=4294967296" in running.flags(bench, place[name], "etcd")
        assert running.began(bench, place[name], "etcd") != before[name]
    assert {name: running.began(bench, place[name], "kube-apiserver") for name in servers} == servers


def test_settings_of_kubelets_and_runtimes_reach_workers_too(bench: Bench, place: dict[str, int]) -> None:
    kubelet = {**running.given(bench)["cluster_kubelet_config"], "maxPods": 123}
    servers = {name: running.began(bench, place[name], "kube-apiserver") for name in ("cp-0", "cp-1")}
    reconfigure(
        bench,
        cluster_kubelet_config=kubelet,
        cluster_containerd_config={"max_concurrent_downloads": 5},
        cluster_coredns_cache_seconds=45,
    )

    for node in ("cp-0", "cp-1", "w-0"):
        assert running.kubelet_setting(bench, node, "maxPods") == 123
        assert "max_concurrent_downloads = 5" in bench.on(place[node], "sudo containerd config dump").stdout
    corefile = bench.on(place["cp-0"], f"{running.KUBECTL} -n kube-system get configmap coredns -o yaml").stdout
    assert "cache 45" in corefile
    assert {name: running.began(bench, place[name], "kube-apiserver") for name in servers} == servers
