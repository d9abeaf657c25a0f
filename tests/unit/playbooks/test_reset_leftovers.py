"""What takes away what a node left: exactly what is named, and nothing of anybody else's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import HARMLESS, TASK_FILES, module, run_here
from tests.unit.processes import shown

network = module("library/firewall_leftovers.py")


KILL = 'echo "$@" >>$place/killed'


def ended(place: Path, tasks_from: str, *, mounts: str = "/", **variables: Any) -> str:
    """Run tasks of the role on this host, where nothing is killed and nothing but `mounts` is mounted."""
    play = {"roles": [], "tasks": [{"ansible.builtin.include_role": {"name": "reset", "tasks_from": tasks_from}}]}
    own = {name: str(place / name) for name in ("reset_releases", "reset_network_namespaces")}
    given = {**HARMLESS, **own, **variables}
    programs = {"kill": KILL, "findmnt": f"""echo '{{"filesystems": [{{"target": "{mounts}"}}]}}'"""}
    return run_here(place, [{**play, "vars": given}], programs, here={})


TAKING = sorted({("reset", path.stem) for path in TASK_FILES if path.parents[1].name == "reset"}) + sorted(
    {(path.parents[1].name, path.stem) for path in TASK_FILES if path.stem in {"reset", "absent"}}
)


@pytest.mark.parametrize(("role", "file"), TAKING)
def test_no_test_takes_anything_off_this_host(role: str, file: str, tmp_path: Path) -> None:
    assert len(TAKING) > 10
    include = {"ansible.builtin.include_role": {"name": role, "tasks_from": file}}
    for tasks in ([include], [{"block": [include]}], [{"block": [], "rescue": [include]}]):
        with pytest.raises(AssertionError, match=f"{role}/{file}"):
            run_here(tmp_path, [{"tasks": tasks}], {}, here={})


def test_no_test_takes_anything_off_this_host_by_another_way(tmp_path: Path) -> None:
    by_variable = {"ansible.builtin.include_role": {"name": "{{ role }}"}}
    for play, host in (({"roles": ["reset"]}, {}), ({"tasks": [by_variable]}, {"role": "reset"})):
        with pytest.raises(AssertionError, match="/main"):
            run_here(tmp_path, [play], {}, here=host)
    cases: tuple[dict[str, Any], ...] = (
        {"reset_paths": ["/etc/kubernetes"]},
        {"reset_network_namespaces": "/run/netns"},
    )
    for wrong in cases:
        with pytest.raises(AssertionError, match=next(iter(wrong))):
            ended(tmp_path, "files", **{"reset_paths": [str(tmp_path / "data")], **wrong})
    with pytest.raises(AssertionError, match="reset_control_groups"):
        ended(tmp_path, "kill", reset_control_groups=["kubepods"])


def test_whatever_runs_a_program_of_ours_is_killed_and_nothing_else(tmp_path: Path) -> None:
    ours = tmp_path / "reset_releases" / "sleep"
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
    (tmp_path / "reset_network_namespaces").mkdir()
    for name in ("cni-1", "theirs"):
        (tmp_path / "reset_network_namespaces" / name).touch()
    paths = [str(tmp_path / "data"), str(tmp_path / "missing")]
    assert "changed=1 " in ended(tmp_path, "files", reset_paths=paths)
    assert not (tmp_path / "data").exists()
    assert [path.name for path in (tmp_path / "reset_network_namespaces").iterdir()] == ["theirs"]
    assert "changed=0 " in ended(tmp_path, "files", reset_paths=paths)


def test_a_folder_is_not_deleted_through_a_mount(tmp_path: Path) -> None:
    (tmp_path / "data" / "disk").mkdir(parents=True)
    said = ended(tmp_path, "files", mounts=f"{tmp_path}/data/disk", reset_paths=[str(tmp_path / "data")])
    assert f"{tmp_path}/data/disk is mounted, so the folder that it is in is not deleted: unmount it" in said
    assert (tmp_path / "data" / "disk").is_dir()


def test_what_was_unmounted_lazily_keeps_no_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    earlier: dict[str, Any] = {"reset_mounted": {"stdout": f'{{"filesystems": [{{"target": "{tmp_path}/data/pod"}}]}}'}}
    assert "changed=1 " in ended(tmp_path, "files", reset_paths=[str(tmp_path / "data")], **earlier)


def test_a_disk_of_the_machine_is_emptied(tmp_path: Path) -> None:
    disk = tmp_path / "data"
    (disk / "deep" / "er").mkdir(parents=True)
    (disk / "lost+found").mkdir()
    assert "changed=1 " in ended(tmp_path, "files", mounts=str(disk), reset_paths=[str(disk)])
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
