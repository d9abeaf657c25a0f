"""What a second run changed: files, services, containers, and what it says itself; nothing that passes by itself."""

from __future__ import annotations

import pytest

from harness.model import Cell, Phase
from harness.validate.inspection import MachineState
from harness.validate.phases import second_run
from harness.validate.phases.second_run import LastingView, changes, is_idempotent

STATE: MachineState = {
    "file": {"/etc/kubernetes/admin.conf": "-rw------- 0:0 1 aa", "/usr/local/bin/kubelet": "-rwxr-xr-x 0:0 9 bb"},
    "start": {"kubelet.service": "100", "containerd.service": "50"},
    "unit": {"kubelet.service": "active running", "file kubelet.service": "enabled"},
    "mount": {"/": "ext4"},
    "link": {"eth0": "  mtu 1500"},
    "kernel setting": {"/proc/sys/net/ipv4/ip_forward": "1"},
}
PASSING = {
    "file": {
        "/etc/kubernetes/admin.conf": "-rw------- 0:0 1 aa",
        "/usr/local/bin/kubelet": "-rwxr-xr-x 0:0 9 bb",
        "/var/lib/etcd/member/wal/0": "-rw------- 0:0 8 cc",
        "/root/.kube/cache/x.json": "-rw-r--r-- 0:0 1 dd",
    },
    "start": {"kubelet.service": "100", "containerd.service": "50", "systemd-hostnamed.service": "900"},
    "unit": {"kubelet.service": "active running", "file kubelet.service": "enabled", "a.timer": "active waiting"},
    "mount": {"/": "ext4", "/var/lib/kubelet/pods/a": "tmpfs"},
    "link": {"eth0": "  mtu 1500", "veth1": "veth cni0 mtu 1450"},
    "kernel setting": {"/proc/sys/net/ipv4/ip_forward": "1"},
}
CONTAINERS = {"kube-system/coredns-1 coredns": 0}


def seen(state: MachineState, containers: dict[str, int] | None = None) -> LastingView:
    return LastingView({"w-0": second_run.kept(state)}, CONTAINERS if containers is None else containers)


def judged(after: LastingView, told: tuple[str, ...] = ()) -> list[str]:
    return [f"{one.where}: {one.seen}" for one in changes(["w-0"], told, seen(STATE), after)]


def with_(kind: str, **things: str) -> MachineState:
    return {**STATE, kind: {**STATE[kind], **things}}


def test_only_phases_of_which_the_product_says_it_are_judged() -> None:
    cell = Cell("c", {}, "s", (Phase("deploy", idempotent=True), Phase("upgrade")), (), {})
    assert [is_idempotent(cell, index) for index in range(2)] == [True, False]


def test_what_passes_by_itself_is_no_change() -> None:
    assert judged(seen(PASSING)) == []


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (with_("file", **{"/etc/x": "-rw-r--r-- 0:0 1 ee"}), "file /etc/x is new"),
        (
            with_("file", **{"/etc/kubernetes/admin.conf": "-rw------- 0:0 1 ff"}),
            "file /etc/kubernetes/admin.conf is another",
        ),
        (
            {**STATE, "file": {"/usr/local/bin/kubelet": "-rwxr-xr-x 0:0 9 bb"}},
            "file /etc/kubernetes/admin.conf is gone",
        ),
        (with_("start", **{"kubelet.service": "700"}), "kubelet.service was restarted"),
        (with_("unit", **{"file kubelet.service": "disabled"}), "unit file kubelet.service is another"),
        (
            with_("kernel setting", **{"/proc/sys/net/ipv4/ip_forward": "0"}),
            "kernel setting /proc/sys/net/ipv4/ip_forward is another",
        ),
    ],
)
def test_what_lasts_and_changes_is_named(state: MachineState, said: str) -> None:
    assert judged(seen(state)) == [f"w-0: {said}"]


def test_containers_that_were_replaced_or_restarted_are_named() -> None:
    assert judged(seen(STATE, {"kube-system/coredns-1 coredns": 1})) == [
        "a container: kube-system/coredns-1 coredns was restarted"
    ]
    assert judged(seen(STATE, {"kube-system/coredns-2 coredns": 0})) == [
        "a container: kube-system/coredns-2 coredns is new",
        "a container: kube-system/coredns-1 coredns is gone",
    ]


def test_what_the_run_says_itself_comes_first() -> None:
    found = judged(seen(with_("start", **{"kubelet.service": "700"})), ("task [restart kubelet] on w-0",))
    assert found == ["task [restart kubelet] on w-0: changed", "w-0: kubelet.service was restarted"]


def test_many_changes_of_a_machine_are_counted() -> None:
    found = judged(seen(with_("file", **{f"/etc/{n}": "x" for n in range(30)})))
    assert len(found) == second_run.LISTED + 1
    assert found[-1] == "w-0: 10 more changes"


def test_a_machine_of_which_nothing_was_seen_proves_nothing() -> None:
    found = changes(["w-0", "w-1"], (), seen({**STATE, "file": {}}), seen(STATE))
    assert [one.where for one in found] == ["w-0", "w-1"]
