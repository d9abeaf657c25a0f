"""Inventories that people wrote: machines and groups as Ansible reads them, and what cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.machines.given_inventory import given_inventory
from harness.spec.usual_names import GROUPS

YAML = """all:
  vars: {ansible_user: admin}
  children:
    k8s_cluster:
      children:
        kube_control_plane: {hosts: {a: {ansible_host: 192.0.2.1}}}
        kube_node: {hosts: {b: {ansible_host: 192.0.2.2, ansible_port: 2222, ansible_user: root}}}
    etcd: {children: {kube_control_plane: {}}}
"""
INI = """[masters]
a ansible_host=192.0.2.1 ansible_user=admin ansible_ssh_common_args='-J jump@192.0.2.9'
[workers]
b ansible_host=192.0.2.2 ansible_user=admin ansible_ssh_common_args='-J jump@192.0.2.9'
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "hosts"
    file.write_text(text, encoding="utf-8")
    return file


def test_groups_by_their_usual_names_with_those_below_them(tmp_path: Path) -> None:
    given = given_inventory(written(tmp_path, YAML), GROUPS)
    assert {m.name: m.groups for m in given.machines} == {"a": ("control_plane", "etcd"), "b": ("node",)}
    assert {m.name: (m.address, m.port, m.user) for m in given.machines} == {
        "a": ("192.0.2.1", 22, "admin"),
        "b": ("192.0.2.2", 2222, "root"),
    }
    assert given.ssh == ()


def test_the_key_and_the_words_for_ssh(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    given = given_inventory(written(tmp_path, INI + f"[all:vars]\nansible_ssh_private_key_file={key}\n"), GROUPS)
    assert given.ssh == ("-i", str(key), "-o", "IdentitiesOnly=yes", "-J", "jump@192.0.2.9")


def test_own_names_of_groups(tmp_path: Path) -> None:
    text = "[heads]\na ansible_host=192.0.2.1\n[hands]\nb ansible_host=192.0.2.2\n"
    given = given_inventory(written(tmp_path, text), {**GROUPS, "control_plane": ("heads",), "node": ("hands",)})
    assert [m.groups for m in given.machines] == [("control_plane",), ("node",)]


WRONG = {
    "no-control-plane": ("[hands]\nb ansible_host=192.0.2.2\n", "has no machine in a group control_plane or"),
    "rubbish": ("all: [1, 2\n", "is no inventory of Ansible"),
    "port": ("[masters]\na ansible_host=192.0.2.1 ansible_port=ssh\n", "ansible_port 'ssh' is no port"),
    "name": ("[masters]\na ansible_host=no-such-host.invalid\n", "is no address and has none"),
    "key": ("[masters]\na ansible_host=192.0.2.1 ansible_ssh_private_key_file=/nope\n", "/nope is not a file"),
    "ways": (INI.replace("jump@192.0.2.9", "jump@192.0.2.8", 1), "ansible_ssh_common_args differs between machines"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_inventory_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    text, says = WRONG[name]
    with pytest.raises(BadInput) as refused:
        given_inventory(written(tmp_path, text), GROUPS)
    assert says in refused.value.summary
    assert refused.value.hint
