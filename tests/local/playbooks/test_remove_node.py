"""Control planes and members of etcd leave, dead or alive; what would cost etcd its majority does not happen."""

from __future__ import annotations

import json

import pytest

from harness.kube.client import Cluster
from harness.kube.resources import NODE
from tests.local.playbooks.conftest import Bench, cell_of
from tests.local.playbooks.machine_state import differences

PKI = "/etc/kubernetes/pki/etcd"
ETCDCTL = f"etcdctl --cacert {PKI}/ca.crt --cert {PKI}/healthcheck-client.crt --key {PKI}/healthcheck-client.key"
KUBECTL = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf"


def leaving(*names: str) -> tuple[str, str]:
    """Return the option that says who goes."""
    return "-e", json.dumps({"cluster_remove_nodes": names})


def nodes(bench: Bench) -> set[str]:
    """Return the names of the Nodes, by the kubeconfig that the playbooks left on the controller."""
    return {node["metadata"]["name"] for node in Cluster.from_kubeconfig(bench.kubeconfig).list(NODE).items}


def members(bench: Bench, machine: int, command: str) -> set[str]:
    """Return the names of etcd's members, asked for on a machine."""
    done = bench.on(machine, f"{command} member list")
    assert done.returncode == 0, done.stderr
    return {line.split(", ")[2] for line in done.stdout.splitlines()}


@pytest.fixture(scope="module")
def stacked(bench: Bench) -> dict[str, dict[str, str]]:
    """Deploy three control planes with etcd on them; return what the first was like before."""
    cell = cell_of("cp3-w2")
    bench.boot(cell)
    before = bench.state(0)
    bench.play()
    return before


def test_control_planes_leave_until_one_is_left(bench: Bench, stacked: dict[str, dict[str, str]]) -> None:
    bench.end(2)
    refused = bench.attempt(*leaving("cp-1"), entry="remove-node")
    assert refused.returncode != 0
    assert "that would stay these are not healthy: cp-2; nothing was removed" in refused.stdout
    assert nodes(bench) == {"cp-0", "cp-1", "cp-2", "w-0", "w-1"}

    bench.play(*leaving("cp-2"), entry="remove-node")
    assert nodes(bench) == {"cp-0", "cp-1", "w-0", "w-1"}
    assert members(bench, 0, f"{KUBECTL} -n kube-system exec etcd-cp-0 -- {ETCDCTL}") == {"cp-0", "cp-1"}

    bench.list_only("cp-0", "cp-1", "w-0", "w-1")
    bench.play(*leaving("cp-0"), entry="remove-node")
    assert nodes(bench) == {"cp-1", "w-0", "w-1"}
    assert members(bench, 1, f"{KUBECTL} -n kube-system exec etcd-cp-1 -- {ETCDCTL}") == {"cp-1"}
    assert differences(stacked, bench.state(0)) == []

    bench.list_only("cp-1", "w-0", "w-1")
    assert {host.changed for host in bench.play()} == {0}


def test_the_first_of_the_inventory_comes_back_as_a_further_one(
    bench: Bench, stacked: dict[str, dict[str, str]]
) -> None:
    bench.list_only("cp-0", "cp-1", "w-0", "w-1")
    bench.play(entry="scale")
    assert nodes(bench) == {"cp-0", "cp-1", "w-0", "w-1"}
    assert members(bench, 1, f"{KUBECTL} -n kube-system exec etcd-cp-1 -- {ETCDCTL}") == {"cp-0", "cp-1"}
    assert {host.changed for host in bench.play(entry="scale")} == {0}


def test_members_of_etcd_on_machines_of_their_own_leave_and_come(bench: Bench) -> None:
    cell = cell_of("cp2-etcd3-w1")
    place = {planned.name: number for number, planned in enumerate(cell.machines)}
    bench.boot(cell)
    before = bench.state(place["etcd-0"])
    bench.play()

    bench.play(*leaving("etcd-0"), entry="remove-node")
    assert members(bench, place["etcd-1"], f"sudo {ETCDCTL}") == {"etcd-1", "etcd-2"}
    assert differences(before, bench.state(place["etcd-0"])) == []
    flags = bench.on(place["cp-1"], "sudo cat /proc/$(pidof kube-apiserver)/cmdline").stdout
    assert flags.count(":2379") == 2

    bench.play(entry="scale")
    assert members(bench, place["etcd-1"], f"sudo {ETCDCTL}") == {"etcd-0", "etcd-1", "etcd-2"}
    for control_plane in ("cp-0", "cp-1"):
        flags = bench.on(place[control_plane], "sudo cat /proc/$(pidof kube-apiserver)/cmdline").stdout
        assert flags.count(":2379") == 3
    assert {host.changed for host in bench.play(entry="scale")} == {0}
