"""Removals that cannot be are refused on the controller, with the remedy, before any machine is asked anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import proc
from tests.unit import ansible_programs
from tests.unit.playbooks.playbook_files import PLAYBOOKS

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
STACKED = {"control_plane": ["cp-0", "cp-1", "cp-2"], "etcd": ["cp-0", "cp-1", "cp-2"], "node": ["w-0", "w-1"]}
EXTERNAL = {"control_plane": ["cp-0", "cp-1"], "etcd": ["e-0", "e-1", "e-2"], "node": ["w-0"]}
ALONE = {"etcd": ["e-0", "e-1", "e-2"]}
SINGLE = {"control_plane": ["cp-0"], "etcd": ["cp-0"], "node": ["w-0"]}
NOBODY = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}  # nothing listens there


def remove(groups: dict[str, list[str]], names: Any, place: Path) -> proc.Completed:
    """Ask for a removal from machines that do not exist; return how Ansible ended."""
    machines = sorted({name for members in groups.values() for name in members})
    children: dict[str, Any] = {group: {"hosts": {name: {} for name in members}} for group, members in groups.items()}
    inventory = {"all": {"vars": NOBODY, "hosts": {name: {} for name in machines}, "children": children}}
    given = {"cluster_hosts": [{"name": name, "address": "192.0.2.1"} for name in machines]}
    given |= {} if names is None else {"cluster_remove_nodes": names}
    (place / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    argv: list[str | Path] = [
        ANSIBLE,
        "-i",
        place / "hosts.yml",
        "-e",
        json.dumps(given),
        PLAYBOOKS / "remove-node.yml",
    ]
    settings = {
        "ANSIBLE_HOME": str(place / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    }
    return ansible_programs.run(argv, timeout=120, env=settings, check=False)


@pytest.mark.parametrize(
    ("groups", "names", "said"),
    [
        (STACKED, None, "must be a list of at least one machine name, but is []"),
        (STACKED, "w-1", 'is \\"w-1\\"; pass -e'),
        (STACKED, ["w-1", "w-7"], "names w-7, which are not in the inventory; it contains cp-0, cp-1, cp-2, w-0, w-1"),
        (SINGLE, ["cp-0"], "no control plane would remain. Add another one first (scale.yml)"),
        (EXTERNAL, ["cp-0", "cp-1"], "no control plane would remain"),
        (STACKED, ["cp-1", "cp-2"], "that is 2 of etcd's 3 members, and the rest would not be a majority"),
        (EXTERNAL, ["e-0", "e-1", "e-2"], "that is 3 of etcd's 3 members"),
        (ALONE, ["e-0", "e-1"], "that is 2 of etcd's 3 members"),
    ],
    ids=["none", "string", "unknown", "last", "last-external", "majority", "all-members", "etcd-alone"],
)
def test_a_removal_that_cannot_be_is_refused_at_once(
    groups: dict[str, list[str]], names: Any, said: str, tmp_path: Path
) -> None:
    done = remove(groups, names, tmp_path)
    assert done.returncode == 2, done.stdout
    assert said in done.stdout
    assert "UNREACHABLE" not in done.stdout


@pytest.mark.parametrize(
    ("groups", "names"),
    [(STACKED, ["cp-0"]), (STACKED, ["w-0", "w-1"]), (EXTERNAL, ["e-2", "cp-0"]), (ALONE, ["e-0"])],
    ids=["first-control-plane", "workers", "member-and-control-plane", "member-of-etcd-alone"],
)
def test_a_removal_that_can_be_goes_on_to_ask_the_machines_that_stay(
    groups: dict[str, list[str]], names: list[str], tmp_path: Path
) -> None:
    done = remove(groups, names, tmp_path)
    asked = {line.split("[")[1].split("]")[0] for line in done.stdout.splitlines() if "UNREACHABLE" in line}
    assert asked == {*groups.get("control_plane", []), *groups["etcd"]} - set(names)
    assert done.returncode == 4
