"""What a folder of playbooks proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec import load_spec
from harness.spec.new_project_playbooks import look
from harness.spec.usual_names import GROUPS, PHASES

PLAY = "- hosts: all\n  tasks: []\n"


def lay(folder: Path, **files: str) -> None:
    """Write playbooks; double underscores stand for dots."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def test_file_names_propose_phases(tmp_path: Path) -> None:
    names = ("site__yml", "scale__yml", "remove_node__yaml", "upgrade__yml", "reset__yml", "users__yml")
    lay(tmp_path, **dict.fromkeys(names, PLAY))
    found = look(tmp_path)
    assert found.folder == "."
    assert found.phases == {
        "deploy": "site.yml",
        "scale-out": "scale.yml",
        "scale-in": "remove_node.yaml",
        "remove-node": "remove_node.yaml",
        "upgrade": "upgrade.yml",
        "reset": "reset.yml",
    }


@pytest.mark.parametrize(
    "text", ["a: 1\n", "- name: a task\n  debug:\n", "[", "", "- 1\n", "\x00"], ids=["map", "tasks", "[", "", "1", "0"]
)
def test_what_is_no_playbook_proposes_nothing(tmp_path: Path, text: str) -> None:
    lay(tmp_path, site__yml=text)
    assert look(tmp_path).phases == {}


def test_the_usual_folders_are_looked_into_in_turn(tmp_path: Path) -> None:
    lay(tmp_path / "playbooks", reset__yml=PLAY)
    lay(tmp_path / "ansible", cluster__yml=PLAY)
    assert look(tmp_path).folder == "ansible"
    assert look(tmp_path, "playbooks").phases == {"reset": "reset.yml"}


def test_plays_and_imports_propose_groups(tmp_path: Path) -> None:
    plays = '- hosts: masters:&amd64\n- hosts: "workers[0],bastion"\n- hosts: "{{ x }}"\n- import_playbook: etcd.yml\n'
    lay(tmp_path, site__yml=plays, etcd__yml="- hosts: [etcd, all]\n- ansible.builtin.import_playbook: site.yml\n")
    found = look(tmp_path)
    assert found.groups == {"control_plane": "masters", "etcd": "etcd", "node": "workers"}
    assert found.others == ("amd64", "bastion")


@pytest.mark.parametrize("hosts", ["all", "control_plane:node:etcd", "etcd:control_plane:all"])
def test_our_own_groups_need_no_names(tmp_path: Path, hosts: str) -> None:
    lay(tmp_path, site__yml=f"- hosts: {hosts}\n  vars: {{secret: !vault x}}\n")
    found = look(tmp_path)
    assert found.phases == {"deploy": "site.yml"}
    assert found.groups == {}
    assert found.others == ()


def test_what_lies_beside_the_playbooks_says_how_ansible_is_called(tmp_path: Path) -> None:
    lay(tmp_path / "playbooks", site__yml=PLAY, requirements__yml="roles: []\n")
    lay(tmp_path, requirements__txt="# ours\nansible-core==2.18.1\n", ansible__cfg="[defaults]\n")
    assert look(tmp_path).ansible == {
        "install": "../requirements.txt",
        "requirements": "requirements.yml",
        "config": "../ansible.cfg",
    }


def test_packages_without_ansible_are_not_installed(tmp_path: Path) -> None:
    lay(tmp_path, site__yml=PLAY, requirements__txt="netaddr\n")
    assert look(tmp_path).ansible == {}


def test_only_phases_and_groups_that_there_are_can_be_proposed(tmp_path: Path) -> None:
    packaged = load_spec(tmp_path / "nowhere")
    assert set(PHASES) == set(packaged.product.phases)
    assert set(GROUPS) == {group for one in packaged.topologies.values() for m in one.machines for group in m.groups}
    assert [names[0] for names in GROUPS.values()] == list(GROUPS)
