"""The order of hosts and their groups."""

from __future__ import annotations

from typing import Any

from harness.operator.api.cluster import AppliedHost
from harness.operator.api.machine import DeclaredMachine
from harness.operator.decide.hosts import applied_host, remembered_host, scale_in_order
from tests.unit.operator.api import objects
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


def machine(name: str, phase: str = "Ready", made: str = "2026-01-01T00:00:00Z", **annotations: str) -> DeclaredMachine:
    found: dict[str, Any] = objects.machine(name)
    marks = {f"cluster.vmatrix.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    found["metadata"] |= {"creationTimestamp": made, "annotations": marks}
    return DeclaredMachine.model_validate({**found, "status": {"phase": phase}})


def test_not_ready_then_marked_then_last_made() -> None:
    machines = [
        machine("w-1"),
        machine("w-2", delete_me="yes"),
        machine("w-3", "NotReady"),
        machine("w-4", made="2026-01-02T00:00:00Z"),
    ]
    assert scale_in_order(machines) == ["w-3", "w-2", "w-4", "w-1"]


def test_of_one_second_the_highest_number_was_last() -> None:
    assert scale_in_order([machine("w-9"), machine("w-10"), machine("w-2")]) == ["w-10", "w-9", "w-2"]
