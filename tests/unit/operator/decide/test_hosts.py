"""The order of hosts and their groups."""

from __future__ import annotations

from harness.operator.api.applied import AppliedHost
from harness.operator.decide.hosts import applied_host, remembered_host
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.wishes import claimed, wish

CP = wanted_set("cp", "control-plane", "worker", replicas=3)
W = wanted_set("w", "worker", replicas=2)
ETCD = wanted_set("db", "etcd", replicas=3)


def test_control_planes_come_first_then_sets_in_their_order_then_names() -> None:
    names = ["w-10", "w-2", "db-0", "cp-1", "cp-0"]
    machines = tuple(claimed(name, name.partition("-")[0]) for name in names)
    assert wish(W, CP, ETCD, machines=machines).machines == ("cp-0", "cp-1", "w-2", "w-10", "db-0")
    assert wish(ETCD, CP, W, machines=machines[::-1]).machines == ("cp-0", "cp-1", "db-0", "w-2", "w-10")


def test_without_a_set_for_etcd_it_runs_on_the_control_planes() -> None:
    (host,) = wish(CP, W, machines=(claimed("a", "cp"),)).hosts
    assert host.groups == ("control_plane", "etcd", "node")


def test_with_a_set_for_etcd_control_planes_have_none() -> None:
    cp, db = wish(CP, ETCD, machines=(claimed("a", "cp"), claimed("b", "db"))).hosts
    assert (cp.groups, db.groups) == (("control_plane", "node"), ("etcd",))


def test_a_control_plane_without_the_role_worker_is_no_node() -> None:
    (host,) = wish(wanted_set("cp", "control-plane"), machines=(claimed("a", "cp"),)).hosts
    assert host.groups == ("control_plane", "etcd")


def test_a_hosts_name_is_its_hostname() -> None:
    machine = claimed("m-7", "cp", hostname="db-server", port=2222, through={"virtualMachineInstance": "vmi-7"})
    (host,) = wish(CP, machines=(machine,)).hosts
    assert (host.name, host.machine, host.port, host.through) == ("db-server", "m-7", 2222, "vmi-7")
    assert (host.key.name, host.key.key) == ("keys", "ssh-privatekey")


def test_a_cluster_remembers_all_that_is_needed_to_reach_a_machine() -> None:
    machine = claimed("m-7", "cp", hostname="web", port=2222, user="admin", through={"virtualMachineInstance": "vm-7"})
    (host,) = wish(CP, machines=(machine,)).hosts
    kept = AppliedHost.model_validate(applied_host(host).model_dump(mode="json", by_alias=True))
    assert remembered_host(kept) == host
