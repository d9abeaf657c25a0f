"""Settings that an interrupted run kept are forgotten once nobody is to go back to them, and not before."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, run_here

NOW = {"manifests/kube-apiserver.yaml": "a", "kubeadm.yml": "b"}
# By a machine's name: what it has kept, whether its components are healthy, what it has afterwards, and whether the
# checkpoint is forgotten.
ROWS: dict[str, tuple[dict[str, str], bool, dict[str, str], bool]] = {
    "same": (NOW, True, NOW, True),
    "same-and-ill": (NOW, False, NOW, True),  # it booted, or the quorum is away
    "differs": ({**NOW, "kubeadm.yml": "former"}, True, NOW, False),  # what is there may not have started yet
    "differs-and-ill": ({**NOW, "kubeadm.yml": "former"}, False, {**NOW, "kubeadm.yml": "former"}, True),
    "surplus": ({"kubeadm.yml": "b"}, True, NOW, False),
}
# Who changes what a checkpoint has, so that nobody may go back to it: the file of tasks in which it is forgotten.
FORGET = {
    "upgrade_prefetch": "main",
    "encryption_key": "step",
    "ca_rotation": "trust",
    "etcd_endpoints": "endpoints",
}


def files(folder: Path) -> dict[str, str]:
    """Return the files below a folder."""
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_is_forgotten_where_nothing_differs(tmp_path: Path) -> None:
    for name, (kept, _, _, _) in ROWS.items():
        folder = tmp_path / name / "etc"
        for content in (kept, NOW):
            for file, text in content.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text, encoding="utf-8")
            if content is kept:
                with tarfile.open(tmp_path / name / "kept.tar", "w") as archive:
                    archive.add(folder)  # by its path without the first slash
    machine = "{{ place }}/{{ inventory_hostname }}"
    play = {
        "tasks": [
            {
                "ansible.builtin.include_role": {"name": "checkpoint", "tasks_from": "settings"},
                "vars": {
                    "checkpoint_unless_healthy": True,
                    "checkpoint_archive": f"{machine}/kept.tar",
                    "checkpoint_folder": f"{machine}/unpacked",
                    "checkpoint_paths": [f"{machine}/etc"],
                    "checkpoint_components": [],
                    "checkpoint_left_healthy": "{{ healthy }}",
                    "checkpoint_settle": 0,
                    "checkpoint_patience": 1,
                },
            }
        ]
    }
    hosts = {name: {"healthy": healthy} for name, (_, healthy, _, _) in ROWS.items()}
    said = run_here(tmp_path, [play], {"flock": "exit 0"}, **hosts)
    assert re.findall(r"changed=(\d+) .*failed=(\d+)", said) == [
        ("1" if "ill" in name and "differs" in name else "0", "0") for name in sorted(ROWS)
    ], said
    for name, (_, _, afterwards, forgotten) in ROWS.items():
        assert files(tmp_path / name / "etc") == afterwards, said
        assert (tmp_path / name / "kept.tar").exists() is not forgotten, name


@pytest.mark.parametrize("role", FORGET)
def test_who_changes_what_it_has_for_good_forgets_a_checkpoint(role: str) -> None:
    tasks = load(PLAYBOOKS / "roles" / role / "tasks" / f"{FORGET[role]}.yml")
    wanted = {"name": "checkpoint", "tasks_from": "forget"}
    assert [task for task in tasks if task.get("ansible.builtin.include_role") == wanted]
