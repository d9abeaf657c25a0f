"""Inventories that people wrote: machines and groups as Ansible reads them, and what cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.machines.given_inventory import given_inventory
from harness.model import Machine
from harness.spec.plays import GROUPS

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
b ansible_host=192.0.2.2 ansible_user=admin ansible_ssh_common_args='-J jump@192.0.2.8'
"""


def written(folder: Path, text: str, name: str = "hosts") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def machines_of(*inventories: Path) -> dict[str, Machine]:
    return {machine.name: machine for machine in given_inventory(inventories, GROUPS).machines}


def target(machine: Machine) -> str:
    return f"{machine.user}@{machine.address}:{machine.port}"


def test_groups_by_their_usual_names_with_those_below_them(tmp_path: Path) -> None:
    machines = machines_of(written(tmp_path, YAML))
    assert {m.name: m.groups for m in machines.values()} == {"a": ("control_plane", "etcd"), "b": ("node",)}
    assert {name: target(m) for name, m in machines.items()} == {"a": "admin@192.0.2.1:22", "b": "root@192.0.2.2:2222"}


def test_the_key_and_each_machines_own_words_for_ssh(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    text = INI + "[all:vars]\nansible_ssh_private_key_file={{ inventory_dir }}/key\n"
    for name, machine in machines_of(written(tmp_path, text)).items():
        words = machine.ssh_options
        assert words[words.index(f'IdentityFile="{key}"') - 1] == "-o"
        assert words[-2:] == ("-J", f"jump@192.0.2.{'9' if name == 'a' else '8'}")


def test_own_names_of_groups(tmp_path: Path) -> None:
    text = "[heads]\na ansible_host=192.0.2.1\n[hands]\nb ansible_host=192.0.2.2\n"
    groups = {**GROUPS, "control_plane": ("heads",), "node": ("hands",)}
    machines = given_inventory([written(tmp_path, text)], groups).machines
    assert [m.groups for m in machines] == [("control_plane",), ("node",)]


VARIABLES = """[masters]
localhost ansible_ssh_host=192.0.2.1 ansible_ssh_user=admin ansible_ssh_port=2222
by-template ansible_host="192.0.2.{{ number }}" ansible_port="{{ lab_port | int + 1 }}" ip6=2001:db8::1
node[1:2]
of-lookup ansible_host=192.0.2.9 ansible_user="{{ lookup('env', 'LAB_USER') }}"
[masters:vars]
lab_port=22000
number=2
[all:vars]
ansible_user=all
"""


def test_what_variables_say_as_ansible_fills_it_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_USER", "lab@realm")
    written(tmp_path, "[defaults]\nremote_user = config\nremote_port = 2200\n", "ansible.cfg")
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    for folder, name, text in (
        ("group_vars", "masters.yml", "ansible_user: group\nansible_host: 192.0.2.50\n"),
        ("host_vars", "node2.yml", "ansible_user: host\nansible_host: 192.0.2.4\n"),
    ):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder, text, name)
    machines = machines_of(written(tmp_path, VARIABLES))
    assert {name: target(machine) for name, machine in machines.items()} == {
        "localhost": "admin@192.0.2.1:2222",
        "by-template": "group@192.0.2.2:22001",
        "node1": "group@192.0.2.50:2200",
        "node2": "host@192.0.2.4:2200",
        "of-lookup": "lab@realm@192.0.2.9:2200",
    }
    assert machines["by-template"].ipv6_address == "2001:db8::1"


SCRIPT = """#!{python}
import json
print(json.dumps({{"workers": {{"hosts": ["c"]}}, "_meta": {{"hostvars": {{"c": {{"ansible_host": "192.0.2.3"}}}}}}}}))
"""


def test_a_folder_and_several_inventories_are_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/group_vars").mkdir()
    written(tmp_path / "folder/group_vars", "ansible_user: admin\n", "all.yml")
    written(tmp_path / "folder", "masters: {hosts: {a: {ansible_host: 192.0.2.1}}}\n", "one.yml")
    written(tmp_path / "folder", '[workers.hosts.b]\nansible_host = "192.0.2.2"\n', "two.toml")
    script = written(tmp_path, SCRIPT.format(python=sys.executable), "dynamic")
    script.chmod(0o755)
    machines = machines_of(tmp_path / "folder", script)
    assert {name: target(machine) for name, machine in machines.items()} == {
        "a": "admin@192.0.2.1:22",
        "b": "admin@192.0.2.2:22",
        "c": "admin@192.0.2.3:22",
    }


def test_a_name_that_ssh_itself_knows(tmp_path: Path) -> None:
    config = written(tmp_path, "Host cp\n  HostName 192.0.2.77\n  Port 2022\n  User lab\n", "config")
    machine = machines_of(written(tmp_path, f"[masters]\ncp ansible_ssh_common_args='-F {config}'\n"))["cp"]
    assert (machine.ssh_host, target(machine)) == ("cp", "lab@192.0.2.77:2022")


def encrypted(folder: Path) -> None:
    """Encrypt variables with Ansible's own program."""
    password = written(folder, "secret\n", "password")
    (folder / "group_vars").mkdir()
    file = written(folder / "group_vars", "ansible_user: vaulted\n", "all.yml")
    program = Path(sys.executable).parent / "ansible-vault"
    subprocess.run([program, "encrypt", "--vault-password-file", password, file], check=True, capture_output=True)


def test_encrypted_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted(tmp_path)
    file = written(tmp_path, "[masters]\na ansible_host=192.0.2.1\n")
    with pytest.raises(BadInput) as refused:
        given_inventory([file], GROUPS)
    assert f"{file}: Attempting to decrypt but no vault secrets found" in refused.value.summary
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    assert target(machines_of(file)["a"]) == "vaulted@192.0.2.1:22"


WRONG = {
    "no-control-plane": ("[hands]\nb ansible_host=192.0.2.2\n", "has no machine in a group control_plane or"),
    "neither": ("all: [1, 2\n", "yaml: "),
    "port": ("[masters]\na ansible_port=ssh\n", "'ssh'"),
    "undefined": ("[masters]\na ansible_host='{{ nope }}'\n", "'nope' is undefined"),
    "unquoted": ("[masters]\na ansible_host={{ nope }}\n", "Expected key=value host variable assignment, got: nope"),
    "plugin": ("[masters]\na ansible_connection=docker\n", "a: the connection plugin 'docker' was not found"),
    "name": ("[masters]\na ansible_host=no-such-host.invalid\n", "is not an address and has none"),
    "key": (
        "[masters]\na ansible_host=192.0.2.1 ansible_private_key_file=/nope\n",
        "a: ansible_private_key_file: /nope",
    ),
    "option": ("[masters]\na ansible_host=192.0.2.1 ansible_ssh_args='-o Nope=1'\n", "Bad configuration option: nope"),
    "quotes": ('[masters]\na ansible_host=192.0.2.1 ansible_ssh_args="\'x"\n', "a: ansible_ssh_args"),
    "host": ("[masters]\na ansible_host=192.0.2.1 ansible_ssh_extra_args=b\n", "name another host, 'b'"),
    "dash": ("[masters]\na ansible_ssh_host=-oProxyCommand=x\n", "a: ansible_ssh_host"),
    "password": ("[masters]\na ansible_ssh_pass=x\n", "a: ansible_ssh_pass: checks cannot"),
    "become": (
        "[masters]\na ansible_host=::1 ansible_user=x ansible_become_pass=y\n",
        "a: ansible_become_pass: checks",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_inventory_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    text, says = WRONG[name]
    file = written(tmp_path, text)
    with pytest.raises(BadInput) as refused:
        given_inventory([file], GROUPS)
    assert says in refused.value.summary
    assert str(file) in refused.value.summary
    assert refused.value.hint
    assert "status" not in refused.value.summary


BROKEN = {
    "hosts.yml": ("all: [1, 2\n", "yaml: ", "did not find expected ',' or ']'"),
    "hosts.toml": ("[a\n", "toml: ", "Expected ']' at the end of a table declaration"),
    "hosts": ("#!/bin/sh\nexit 3\n", "script: ", "script"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_why_ansible_cannot_read_a_source(tmp_path: Path, name: str) -> None:
    text, plugin, says = BROKEN[name]
    file = written(tmp_path, text, name)
    if text.startswith("#!"):
        file.chmod(0o755)
    with pytest.raises(BadInput) as refused:
        given_inventory([file], GROUPS)
    assert f"cannot read the inventory {file}: {plugin}" in refused.value.summary
    assert says in refused.value.summary
    assert "; " not in refused.value.summary.replace("; did", "")


def test_what_ansible_is_not_even_asked_about(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nope: No such file"):
        given_inventory([tmp_path / "nope"], GROUPS)


def test_the_users_settings_that_have_no_part_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = "[defaults]\nlog_path = log\nstrategy = mitogen_linear\nstdout_callback = nope\ncallbacks_enabled = nope\n"
    written(tmp_path, f"{config}[tags]\nrun = x\nskip = always\n", "ansible.cfg")
    monkeypatch.chdir(tmp_path)
    assert target(machines_of(written(tmp_path, "[masters]\na ansible_host=192.0.2.1 ansible_user=x\n"))["a"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ansible.cfg", "hosts"]
