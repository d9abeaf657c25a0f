"""What takes away what a node left: exactly what is named, and nothing of anybody else's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import HARMLESS, PLAYBOOKS, TASK_FILES, check_refusal, run_here, tasks
from tests.unit.processes import shown

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
    for played in ([include], [{"block": [include]}], [{"block": [], "rescue": [include]}]):
        with pytest.raises(AssertionError, match=f"{role}/{file}"):
            run_here(tmp_path, [{"tasks": played}], {}, here={})


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


OUR_REGISTRY = "# From cluster_registries, cluster_image_registry and cluster_image_prefix\nserver = 'http://x'\n"
# Of containerd's registries and what else its folder has: the content, and whether a reset leaves it.
REGISTRIES = {
    "registry.k8s.io/hosts.toml": (OUR_REGISTRY, False),
    "[fd00::5]:5050/hosts.toml": (OUR_REGISTRY, False),
    "[fd00::5]:5050/ca.crt": ("a certificate", False),
    "mine:5050/hosts.toml": (OUR_REGISTRY, False),
    "mine:5050/client.key": ("a key of somebody else", True),
    "theirs/hosts.toml": ("server = 'https://theirs'\n", True),
    "theirs/ca.crt": ("a certificate", True),
    "docker.io/registry.crt": ("a certificate", True),
}


@pytest.mark.parametrize("alone", [False, True])
def test_registries_of_others_stay(tmp_path: Path, *, alone: bool) -> None:
    folder = tmp_path / "certs.d"
    written = {path: text for path, (text, lasting) in REGISTRIES.items() if not (alone and lasting)}
    for path, text in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "a run that was killed").mkdir()
    given = {"container_runtime_registries_folder": str(folder), "container_runtime_wanted": []}
    emptied = {"container_runtime_emptied": [str(folder), str(tmp_path / "missing")]}
    play = [
        {"ansible.builtin.include_role": {"name": "container_runtime", "tasks_from": name}, "vars": {**given, **more}}
        for name, more in (("registries-absent", {}), ("folders-absent", emptied))
    ]
    said = run_here(tmp_path, [{"tasks": play}], {}, here={})
    assert "failed=0 " in said, said
    lasting = {path for path, (_, lasting) in REGISTRIES.items() if lasting and not alone}
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == lasting
    assert folder.exists() is not alone
    assert {path.name for path in folder.glob("*")} == {path.split("/")[0] for path in lasting}
    assert "changed=0 " in run_here(tmp_path, [{"tasks": play}], {}, here={})


def test_a_folder_that_cannot_be_removed_ends_a_reset(tmp_path: Path) -> None:
    include = {"ansible.builtin.include_role": {"name": "container_runtime", "tasks_from": "folders-absent"}}
    play = {"tasks": [include], "vars": {"container_runtime_emptied": [str(tmp_path)]}}
    said = run_here(
        tmp_path, [play], {"find": "echo 'find: cannot delete: Device or resource busy' >&2; exit 1"}, here={}
    )
    check_refusal(said, "here", "Device or resource busy")


def test_a_reset_of_the_runtime_removes_files_that_the_role_writes_and_no_folder() -> None:
    role = PLAYBOOKS / "roles" / "container_runtime" / "tasks"
    written = set()
    for path in (role / "containerd.yml", role / "crio.yml"):
        for task in tasks(path):
            loop = task.get("loop", [])
            for module in ("ansible.builtin.copy", "ansible.builtin.template"):
                written |= {str(task.get(module, {}).get("dest"))}
            written |= {item["dest"] for item in loop if isinstance(item, dict)}
    removed = {
        path for task in tasks(role / "reset.yml") for path in task.get("vars", {}).get("container_runtime_files", [])
    }
    units = {f"/etc/systemd/system/{name}.service" for name in ("containerd", "crio")}  # daemon's absent.yml
    assert removed == {path for path in written - units if path.startswith("/") and "{{" not in path}


def chain(table: str, name: str, **more: Any) -> dict[str, Any]:
    return {"chain": {"family": "ip", "table": table, "name": name, **more}}


def rule(table: str, name: str, handle: int, *expression: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "ip", "table": table, "chain": name, "handle": handle, "expr": list(expression)}}


MARK = {"meta": {"key": "mark"}}


def marked(op: str = "==", right: int = 0x20000, left: Any = None) -> dict[str, Any]:
    return {"match": {"op": op, "left": left or {"&": [MARK, 0x20000]}, "right": right}}


INPUT = chain("filter", "INPUT", hook="input", policy="accept")
OURS = chain("filter", "KUBE-FIREWALL")
ACCEPT = {"accept": None}
COMMENT = {"xt": {"type": "match", "name": "comment"}}
COUNTER = {"counter": None}
JUMP = {"jump": {"target": "KUBE-FIREWALL"}}
WITHOUT_OURS = "flush chain ip filter KUBE-FIREWALL\ndelete chain ip filter KUBE-FIREWALL\n"
# What is in the firewall, and what nft is told then, "" for nothing.
FIREWALLS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a table of iptables in which everything is ours": (
        [INPUT, OURS, rule("filter", "INPUT", 7, JUMP), rule("filter", "KUBE-FIREWALL", 8, {"drop": None})],
        f"delete rule ip filter INPUT handle 7\n{WITHOUT_OURS}delete table ip filter\n",
    ),
    "a rule that goes to a chain of ours and does not come back": (
        [INPUT, OURS, rule("filter", "INPUT", 7, COMMENT, COUNTER, {"goto": {"target": "KUBE-FIREWALL"}})],
        f"delete rule ip filter INPUT handle 7\n{WITHOUT_OURS}delete table ip filter\n",
    ),
    "a rule of others": ([INPUT, OURS, rule("filter", "INPUT", 9, ACCEPT)], WITHOUT_OURS),
    "a chain of others": ([INPUT, OURS, chain("filter", "docker")], WITHOUT_OURS),
    "a policy of others": (
        [INPUT, OURS, chain("filter", "FORWARD", hook="forward", policy="drop")],
        WITHOUT_OURS,
    ),
    "chains of ours in a table of others": (
        [chain("mine", "KUBE-X")],
        "flush chain ip mine KUBE-X\ndelete chain ip mine KUBE-X\n",
    ),
    "nothing of ours": ([INPUT, rule("filter", "INPUT", 3, ACCEPT)], ""),
    "a name that only has ours in it": ([INPUT, chain("filter", "MY-KUBE-X"), chain("filter", "kube-x")], ""),
    "a table that goes whole, as check mode sees it": ([chain("kube-proxy", "KUBE-X")], ""),
    "no table": ([], ""),
    "our mark is accepted": (
        [INPUT, rule("filter", "INPUT", 7, COMMENT, marked(), COUNTER, ACCEPT)],
        "delete rule ip filter INPUT handle 7\ndelete table ip filter\n",
    ),
    "our mark is accepted, as an older nft lists it": (
        [INPUT, rule("filter", "INPUT", 7, {"xt": None}, marked(), COUNTER, ACCEPT)],
        "delete rule ip filter INPUT handle 7\ndelete table ip filter\n",
    ),
    "our mark is dropped": ([INPUT, rule("filter", "INPUT", 7, COMMENT, marked(), COUNTER, {"drop": None})], ""),
    "a mark in a table of others": ([INPUT, rule("mine", "INPUT", 7, COMMENT, marked(), COUNTER, ACCEPT)], ""),
    "another mark": ([INPUT, rule("filter", "INPUT", 7, marked(right=0), COUNTER, ACCEPT)], ""),
    "packets without our mark": ([INPUT, rule("filter", "INPUT", 7, marked("!="), COUNTER, ACCEPT)], ""),
    "two marks": ([INPUT, rule("filter", "INPUT", 7, marked(right=1), marked(), COUNTER, ACCEPT)], ""),
    "our mark of one owner": (
        [INPUT, rule("filter", "INPUT", 7, {"xt": {"type": "match", "name": "owner"}}, marked(), COUNTER, ACCEPT)],
        "",
    ),
    "our mark at a rate": (
        [INPUT, rule("filter", "INPUT", 7, marked(), {"limit": {"rate": 1, "per": "second"}}, COUNTER, ACCEPT)],
        "",
    ),
    "our mark and no other bit": ([INPUT, rule("filter", "INPUT", 7, marked(left=MARK), COUNTER, ACCEPT)], ""),
}
NFT = """case $* in
*list*) echo "$@" >$place/$machine.listed; cat $place/$machine.json;;
*) cat >$place/$machine.nft;;
esac
"""
SWEEP = [{"ansible.builtin.include_role": {"name": "reset", "tasks_from": "nft"}}]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what nft was told on a machine of each firewall, and with what Ansible said."""
    place = tmp_path_factory.mktemp("swept")
    machines = {f"m{number}": entries for number, (entries, _) in enumerate(FIREWALLS.values())}
    for name, entries in machines.items():
        (place / f"{name}.json").write_text(json.dumps({"nftables": [{"metainfo": {}}, *entries]}), encoding="utf-8")
    said = run_here(place, [{"vars": HARMLESS, "tasks": SWEEP}], {"nft": NFT}, **{name: {} for name in machines})
    (place / "said").write_text(said, encoding="utf-8")
    return place


@pytest.mark.parametrize("what", FIREWALLS)
def test_chains_and_rules_of_ours_go_and_others_stay(what: str, swept: Path) -> None:
    machine = f"m{list(FIREWALLS).index(what)}"
    told = swept / f"{machine}.nft"
    assert (swept / f"{machine}.listed").read_text(encoding="utf-8") == "--json --stateless list ruleset\n"
    script = told.read_text(encoding="utf-8") if told.exists() else ""
    assert script.rstrip("\n") == FIREWALLS[what][1].rstrip("\n")
    changed = int(bool(FIREWALLS[what][1]))
    said = (swept / "said").read_text(encoding="utf-8")
    assert re.search(rf"^{machine} +: ok=\d+ +changed={changed} +unreachable=0 +failed=0 ", said, re.MULTILINE), said


def test_check_mode_says_which_chains_would_go_and_reads_no_set(tmp_path: Path) -> None:
    (tmp_path / "here.json").write_text(json.dumps({"nftables": [INPUT, OURS]}), encoding="utf-8")
    said = run_here(tmp_path, [{"vars": HARMLESS, "tasks": SWEEP}], {"nft": NFT}, ["--check"], here={})
    assert "KUBE-FIREWALL" in said
    assert "changed=1 " in said
    assert (tmp_path / "here.listed").read_text(encoding="utf-8") == "--json --stateless list chains\n"
    assert not (tmp_path / "here.nft").exists()


def test_a_firewall_that_cannot_be_read_ends_a_reset_with_the_remedy(tmp_path: Path) -> None:
    said = run_here(tmp_path, [{"vars": HARMLESS, "tasks": SWEEP}], {"nft": "kill -SEGV $$"}, here={})
    words = (
        "cannot remove leftovers in the firewall: `nft --json --stateless list ruleset` ended with status -11: remove"
    )
    check_refusal(said, "here", words, "or install a newer nftables")
