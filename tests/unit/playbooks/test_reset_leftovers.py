"""The modules that take away what a node left: exactly what is named, and nothing of anybody else's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import module
from tests.unit.processes import shown

node = module("library/node_leftovers.py")
network = module("library/network_leftovers.py")

MOUNTINFO = """\
22 1 0:20 / / rw - ext4 /dev/vda1 rw
30 22 0:30 / /var/lib/kubelet rw - ext4 /dev/vdb1 rw
31 30 0:31 / /var/lib/kubelet/pods/a/volumes/token rw - tmpfs tmpfs rw
32 31 0:32 / /var/lib/kubelet/pods/a/volumes/token/on\\040top rw - tmpfs tmpfs rw
33 22 0:33 / /var/lib/kubelet-other rw - tmpfs tmpfs rw
"""


def test_mounts_below_a_folder_go_and_those_on_top_first() -> None:
    found = node.mounted(["/var/lib/kubelet"], MOUNTINFO)
    assert found == ["/var/lib/kubelet/pods/a/volumes/token/on top", "/var/lib/kubelet/pods/a/volumes/token"]


@pytest.mark.parametrize(
    ("membership", "ours"),
    [
        ("4:memory:/kubepods/burstable/pod1/c1\n1:name=systemd:/kubepods/burstable/pod1/c1\n", True),
        ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope\n", True),
        ("0::/machine/kubepods/besteffort/pod1\n", True),
        ("0::/system.slice/ssh.service\n", False),
        ("0::/system.slice/mykubepods/x\n", False),
    ],
)
def test_a_process_is_a_pods_by_its_control_group(membership: str, ours: bool) -> None:
    assert node.in_groups(membership, ["kubepods", "kubepods.slice"]) is ours


def test_whatever_runs_a_program_of_ours_is_killed_and_nothing_else(tmp_path: Path) -> None:
    ours = tmp_path / "releases" / "sleep"
    ours.parent.mkdir()
    shutil.copy("/bin/sleep", ours)
    with subprocess.Popen([ours, "60"]) as mine, subprocess.Popen(["/bin/sleep", "60"]) as theirs:
        assert shown(mine) != shown(theirs)
        assert [pid for pid, _ in node.processes([], [str(ours.parent)])] == [mine.pid]
        ours.unlink()  # as versioned_binaries does before
        node.kill([], [str(ours.parent)], 10)
        assert mine.wait() < 0
        assert theirs.poll() is None
        theirs.kill()


def test_a_folder_is_deleted_whole_and_a_missing_one_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    assert node.expand(str(tmp_path / "data")) == [str(tmp_path / "data")]
    node.unlink(str(tmp_path / "data"))
    assert node.expand(str(tmp_path / "data")) == []
    node.unlink(str(tmp_path / "data"))


def test_a_folder_is_not_deleted_through_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "mounted").mkdir(parents=True)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"31 30 0:31 / {tmp_path}/data/mounted rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr(node, "MOUNTS", mounts)
    with pytest.raises(node.Stuck, match="is mounted"):
        node.unlink(str(tmp_path / "data"))
    assert (tmp_path / "data" / "mounted").is_dir()


def table(name: str, family: str = "ip") -> dict[str, Any]:
    return {"table": {"family": family, "name": name}}


def chain(place: str, name: str, **more: Any) -> dict[str, Any]:
    return {"chain": {"family": "ip", "table": place, "name": name, **more}}


def rule(place: str, name: str, handle: int, *expression: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "ip", "table": place, "chain": name, "handle": handle, "expr": list(expression)}}


BASE = {"hook": "input", "policy": "accept"}
JUMP = {"jump": {"target": "KUBE-FIREWALL"}}


def test_a_table_of_iptables_that_held_only_our_chains_goes() -> None:
    rules = [
        table("filter"),
        chain("filter", "INPUT", **BASE),
        chain("filter", "KUBE-FIREWALL"),
        rule("filter", "INPUT", 7, JUMP),
        rule("filter", "KUBE-FIREWALL", 8, {"drop": None}),
    ]
    removed, script = network.commands(rules, ("KUBE-",))
    assert removed == ["chain ip filter KUBE-FIREWALL"]
    assert script == [
        "delete rule ip filter INPUT handle 7",
        "flush chain ip filter KUBE-FIREWALL",
        "delete chain ip filter KUBE-FIREWALL",
        "delete table ip filter",
    ]


@pytest.mark.parametrize(
    "theirs",
    [
        rule("filter", "INPUT", 9, {"accept": None}),
        chain("filter", "docker"),
        chain("filter", "FORWARD", hook="forward", policy="drop"),
    ],
)
def test_a_table_in_which_others_have_something_stays(theirs: dict[str, Any]) -> None:
    rules = [table("filter"), chain("filter", "INPUT", **BASE), chain("filter", "KUBE-FIREWALL"), theirs]
    _, script = network.commands(rules, ("KUBE-",))
    assert script == ["flush chain ip filter KUBE-FIREWALL", "delete chain ip filter KUBE-FIREWALL"]


MARK = {"meta": {"key": "mark"}}


def marked(op: str = "==", right: int = 0x20000, left: Any = None) -> dict[str, Any]:
    return {"match": {"op": op, "left": left or {"&": [MARK, 0x20000]}, "right": right}}


COMMENT = {"xt": {"type": "match", "name": "comment"}}
COUNTER = {"counter": {"packets": 12, "bytes": 540}}


def test_a_rule_that_accepts_packets_for_our_mark_goes() -> None:
    rules = [
        table("filter"),
        chain("filter", "INPUT", **BASE),
        rule("filter", "INPUT", 7, COMMENT, marked(), COUNTER, {"accept": None}),
    ]
    removed, script = network.commands(rules, ("KUBE-",), ("0x20000/0x20000",))
    assert removed == []
    assert script == ["delete rule ip filter INPUT handle 7", "delete table ip filter"]


@pytest.mark.parametrize(
    "theirs",
    [
        rule("filter", "INPUT", 7, COMMENT, marked(), COUNTER, {"drop": None}),
        rule("mine", "INPUT", 7, COMMENT, marked(), COUNTER, {"accept": None}),
        rule("filter", "INPUT", 7, marked(right=0), {"accept": None}),
        rule("filter", "INPUT", 7, marked("!="), {"accept": None}),
        rule("filter", "INPUT", 7, marked(right=1), marked(), {"accept": None}),
        rule("filter", "INPUT", 7, {"xt": {"type": "match", "name": "owner"}}, marked(), {"accept": None}),
        rule("filter", "INPUT", 7, marked(), {"limit": {"rate": 1, "per": "second"}}, {"accept": None}),
        rule("filter", "INPUT", 7, marked(left=MARK), {"accept": None}),
    ],
)
def test_a_rule_that_does_otherwise_with_a_mark_stays(theirs: dict[str, Any]) -> None:
    rules = [table("filter"), chain("filter", "INPUT", **BASE), theirs]
    assert network.commands(rules, ("KUBE-",), ("0x20000/0x20000",)) == ([], [])


def test_without_rules_of_ours_there_is_nothing_to_do() -> None:
    rules = [table("filter"), chain("filter", "INPUT", **BASE), rule("filter", "INPUT", 3, {"accept": None})]
    assert network.commands(rules, ("KUBE-",)) == ([], [])


def test_the_older_tables_lose_our_chains_and_what_leads_to_them() -> None:
    saved = """\
*filter
:INPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -p tcp --dport 22 -j ACCEPT
-A INPUT -m comment --comment "what policies allow" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A INPUT -m mark --mark 0x40000/0x40000 -j ACCEPT
-A KUBE-FIREWALL -m comment --comment "block" -j DROP
COMMIT
"""
    assert (
        network.without(saved, ("KUBE-",), ("0x20000/0x20000",))
        == """\
*filter
:INPUT ACCEPT [0:0]
-A INPUT -p tcp --dport 22 -j ACCEPT
-A INPUT -m mark --mark 0x40000/0x40000 -j ACCEPT
COMMIT
"""
    )


def test_interfaces_of_bridges_go_before_their_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = '[{"ifname":"lo"},{"ifname":"cni0"},{"ifname":"veth1","master":"cni0"},{"ifname":"veth2","master":"br0"}]'
    monkeypatch.setattr(network, "output", lambda *_: shown)
    assert network.interfaces(["cni0", "flannel.1"]) == ["veth1", "cni0"]
