"""Digests of plain data, and in which order sets give machines up. More about digests is in test_properties.py."""

from __future__ import annotations

from typing import Any

from harness.operator.api.cluster import AppliedHost, AppliedState
from harness.operator.api.machine import DeclaredMachine
from harness.operator.decide.desired import applied_host, digest_of, next_hop, remembered_host, scale_in_order
from tests.unit.operator.api import objects
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.wishes import MACHINES, claimed, deployed, wish


def test_a_whole_number_is_the_same_with_and_without_a_point() -> None:
    assert digest_of({"a": [2.0, {"b": -0.0}]}) == digest_of({"a": [2, {"b": 0}]})
    assert digest_of({"a": 2.5}) != digest_of({"a": 2})
    assert digest_of({"a": 1}) != digest_of({"a": True})


def test_a_digest_is_short_enough_to_compare_by_eye() -> None:
    assert digest_of({}) == "44136fa355b3678a"


def test_sets_give_up_what_is_not_ready_then_what_is_marked_then_the_last() -> None:
    ready = [one.model_copy(update={"status": one.status.model_copy(update={"phase": "Ready"})}) for one in MACHINES]
    marked = ready[1].metadata.model_copy(update={"annotations": {"cluster.vmatrix.dev/delete-me": "it is noisy"}})
    ready[1] = ready[1].model_copy(update={"metadata": marked})
    assert wish(machines=tuple(ready)).scale_in == ("w-1", "w-2", "cp-0")
    ready[0] = MACHINES[0]
    assert wish(machines=tuple(ready)).scale_in[0] == "cp-0"


MIRROR = {"mirror": "http://192.0.2.1:8080", "registry": "192.0.2.1:5000"}


def applied(**spec: Any) -> AppliedState:
    found = deployed(wish(**spec)).applied
    assert found is not None
    return found


def test_a_hop_is_one_minor_with_the_versions_that_belong_to_it() -> None:
    hop = next_hop(wish(version="1.36.3"), applied(version="1.34.4"))
    assert (hop.version, hop.last, hop.variables["cluster_coredns_version"]) == ("1.35.4", False, "1.13.1")
    last = next_hop(wish(version="1.36.3"), applied(version="1.35.4"))
    assert (last.version, last.last, last.variables) == ("1.36.3", True, wish(version="1.36.3").variables)


def test_settings_wait_for_the_last_hop_and_sources_do_not() -> None:
    one = wish(version="1.36.3", variables={"a": 1}, source={**objects.SOURCE, **MIRROR})
    hop = next_hop(one, applied(version="1.34.4"))
    assert "a" not in hop.variables
    assert hop.variables["cluster_image_registry"] == "192.0.2.1:5000"
    assert next_hop(one, applied(version="1.35.4")).variables["a"] == 1


def test_components_change_with_the_last_hop_and_etcd_never_goes_back() -> None:
    before = applied(version="1.34.4", components={"etcd": "3.6.7", "runc": "1.4.0"})
    hop = next_hop(wish(version="1.36.3"), before)
    assert hop.variables["cluster_runc_version"] == "1.4.0"
    assert hop.variables["cluster_etcd_version"] == "3.6.7"  # the table has 3.6.6 for 1.35.4


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
