"""What takes away what a node left: exactly what is named, and nothing of anybody else's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import module, run_here
from tests.unit.processes import shown

network = module("library/firewall_leftovers.py")


# The role's own is never run here: this host may run machines, whose processes it would see.
KILL = 'echo "$@" >>$place/killed'


def ended(place: Path, tasks_from: str, **variables: Any) -> str:
    """Run tasks of the role on this host, where nothing is killed."""
    play = {"roles": [], "tasks": [{"ansible.builtin.include_role": {"name": "reset", "tasks_from": tasks_from}}]}
    given = {"reset_control_groups": ["none-of-them"], "reset_releases": str(place / "releases"), **variables}
    return run_here(place, [{**play, "vars": given}], {"kill": KILL}, here={})


def test_whatever_runs_a_program_of_ours_is_killed_and_nothing_else(tmp_path: Path) -> None:
    ours = tmp_path / "releases" / "sleep"
    ours.parent.mkdir()
    shutil.copy("/bin/sleep", ours)
    with subprocess.Popen([ours, "60"]) as mine, subprocess.Popen(["/bin/sleep", "60"]) as theirs:
        assert shown(mine) != shown(theirs)
        ours.unlink()  # as the binaries are before
        said = ended(tmp_path, "kill")
        mine.kill()
        theirs.kill()
    assert "changed=1 " in said
    assert (tmp_path / "killed").read_text(encoding="utf-8") == f"-KILL {mine.pid}\n"


def test_folders_are_deleted_whole_and_missing_ones_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    mounted = {"reset_mounted": {"stdout": '{"filesystems": [{"target": "/"}]}'}}
    paths = {"reset_paths": [str(tmp_path / "data"), str(tmp_path / "missing")], "reset_network_plugins": []}
    assert "changed=1 " in ended(tmp_path, "files", **mounted, **paths)
    assert not (tmp_path / "data").exists()
    assert "changed=0 " in ended(tmp_path, "files", **mounted, **paths)


def test_a_folder_is_not_deleted_through_a_mount(tmp_path: Path) -> None:
    (tmp_path / "data" / "disk").mkdir(parents=True)
    mounted = {"reset_mounted": {"stdout": f'{{"filesystems": [{{"target": "{tmp_path}/data/disk"}}]}}'}}
    said = ended(tmp_path, "files", **mounted, reset_paths=[str(tmp_path / "data")], reset_network_plugins=[])
    assert f"{tmp_path}/data/disk is mounted, so the folder that it is in is not deleted: unmount it" in said
    assert (tmp_path / "data" / "disk").is_dir()


def test_a_disk_of_the_machine_is_emptied(tmp_path: Path) -> None:
    disk = tmp_path / "data"
    (disk / "deep" / "er").mkdir(parents=True)
    (disk / "lost+found").mkdir()
    mounted = {"reset_mounted": {"stdout": f'{{"filesystems": [{{"target": "{disk}"}}]}}'}}
    assert "changed=1 " in ended(tmp_path, "files", **mounted, reset_paths=[str(disk)], reset_network_plugins=[])
    assert [path.name for path in disk.iterdir()] == ["lost+found"]


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
