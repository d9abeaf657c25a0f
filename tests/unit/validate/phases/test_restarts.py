"""Restarted machines: whether they restarted, what they lost, and which acknowledged writes are gone."""

from __future__ import annotations

import pytest

from harness.model import Cell, Phase
from harness.validate.inspection import MachineState
from harness.validate.phases import restarts

NODES = ("cp-0", "w-0")
BEFORE = {"cp-0": "1", "w-0": "2"}
STATE: MachineState = {
    "mount": {"/": "ext4", "/data": "xfs", "/var/lib/kubelet/pods/a/volumes/b": "tmpfs"},
    "link": {
        "eth0": "  mtu 1500",
        "flannel.1": "vxlan  mtu 1450",
        "cni0": "bridge  mtu 1450",
        "veth1": "veth cni0 mtu 1450",
    },
    "route": {"default via 10.0.0.1 dev eth0": "", "10.244.0.0/24 dev cni0 proto kernel": ""},
    "unit": {
        "kubelet.service": "active running",
        "cloud-init.service": "inactive dead",
        "file kubelet.service": "enabled",
    },
    "kernel setting": {
        "/proc/sys/net/ipv4/ip_forward": "1",
        "/proc/sys/net/ipv4/tcp_fastopen_key": "a-b",
        "/proc/sys/net/ipv4/conf/cni0/rp_filter": "0",
    },
}


def changed(kind: str, name: str, value: str | None) -> MachineState:
    things = {key: seen for key, seen in STATE[kind].items() if key != name}
    return {**STATE, kind: things if value is None else {**things, name: value}}


def test_phases_with_a_restart_are_told_from_others() -> None:
    cell = Cell(
        "c", {}, "s", (Phase("deploy"), Phase("reboot", restart="all-at-once"), Phase("p", restart="power-cut")), (), {}
    )
    assert [restarts.restarts(cell, n) for n in range(3)] == [False, True, True]
    assert [restarts.power_cut(cell, n) for n in range(3)] == [False, False, True]


def test_machines_that_restarted_have_another_boot_id_and_others_have_not() -> None:
    assert restarts.not_restarted(["cp-0"], NODES, BEFORE, {"cp-0": "3", "w-0": "2"}) == []


@pytest.mark.parametrize(
    ("before", "after", "who"),
    [
        (BEFORE, BEFORE, "cp-0"),
        (BEFORE, {"cp-0": "3", "w-0": "4"}, "w-0"),
        ({"w-0": "2"}, {"cp-0": "3", "w-0": "2"}, "cp-0"),
        (BEFORE, {"w-0": "2"}, "cp-0"),
        (BEFORE, {"cp-0": "", "w-0": "2"}, "cp-0"),
    ],
)
def test_a_restart_that_was_none_is_found(before: dict[str, str], after: dict[str, str], who: str) -> None:
    assert [found.where for found in restarts.not_restarted(["cp-0"], NODES, before, after)] == [who]


def test_what_comes_and_goes_with_pods_or_is_drawn_at_boot_is_not_lost() -> None:
    after: MachineState = {
        "mount": {"/": "ext4", "/data": "xfs"},
        "link": {"eth0": "  mtu 1500", "flannel.1": "vxlan  mtu 1450", "veth9": "veth cni0 mtu 1450"},
        "route": {"default via 10.0.0.1 dev eth0": ""},
        "unit": {
            "kubelet.service": "active running",
            "cloud-init.service": "active exited",
            "file kubelet.service": "enabled",
        },
        "kernel setting": {"/proc/sys/net/ipv4/ip_forward": "1", "/proc/sys/net/ipv4/tcp_fastopen_key": "c-d"},
    }
    assert restarts.lost(["w-0"], {"w-0": STATE}, {"w-0": after}) == []


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("mount", "/data", None),
        ("link", "flannel.1", None),
        ("link", "eth0", "  mtu 1400"),
        ("route", "default via 10.0.0.1 dev eth0", None),
        ("unit", "kubelet.service", "failed failed"),
        ("unit", "file kubelet.service", "disabled"),
        ("kernel setting", "/proc/sys/net/ipv4/ip_forward", "0"),
    ],
)
def test_what_a_restart_loses_is_found(kind: str, name: str, value: str | None) -> None:
    (found,) = restarts.lost(["w-0"], {"w-0": STATE}, {"w-0": changed(kind, name, value)})
    assert found.where == f"w-0, {kind} {name}"


def test_nothing_to_compare_is_a_finding() -> None:
    empty: MachineState = {kind: {} for kind in STATE}
    assert len(restarts.lost(["w-0"], {"w-0": empty}, {"w-0": STATE})) == len(STATE)
    assert [found.seen for found in restarts.lost(["w-0"], {}, {"w-0": STATE})] == ["none"]


def test_restarts_of_containers_are_counted_from_before() -> None:
    pod = {
        "metadata": {"namespace": "kube-system", "name": "etcd-cp-0"},
        "status": {"containerStatuses": [{"name": "etcd", "restartCount": 9}]},
    }
    now = restarts.container_restarts([pod])
    assert now == {"kube-system/etcd-cp-0 etcd": 9}
    assert restarts.restless({"kube-system/etcd-cp-0 etcd": 7}, now) == []
    assert [found.seen for found in restarts.restless({}, now)] == ["9"]


def test_a_write_that_is_gone_is_found_and_none_at_all_too() -> None:
    assert restarts.missing_writes(["000000", "000001"], ["000000", "000001", "000002"]) == []
    (found,) = restarts.missing_writes(["000000", "000001"], ["000000"])
    assert "000001" in found.seen
    assert len(restarts.missing_writes([], ["000000"])) == 1
