"""Inventories that people wrote: machines and groups as Ansible reads them, and what cannot be used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.machines.given_inventory import (
    REFUSED,
    SUDO,
    SUDO_WITHOUT_MEANING,
    WITHOUT_MEANING,
    WORDS,
    AnsibleConnection,
    Connections,
    OptionValue,
    connections,
    given_inventory,
    refuse_other_root,
    ssh_words,
)
from harness.model import Machine
from harness.proc import run
from harness.spec.usual_names import GROUPS
from tests.unit import ansible_programs

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


@pytest.fixture(autouse=True)
def _ansible_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask an Ansible that is loaded already, unless a test has settings of its own."""
    monkeypatch.setattr("harness.machines.given_inventory.run", ansible_programs.run)


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
    "key": (
        "[masters]\na ansible_host=192.0.2.1 ansible_private_key_file=/nope\n",
        "a: ansible_private_key_file: /nope",
    ),
    "one address": (
        "[masters]\na ansible_host=192.0.2.1\n[workers]\nb ansible_host=192.0.2.1\n",
        "a and b are one machine: 192.0.2.1, port 22",
    ),
    "one address, written otherwise": (
        "[masters]\na ansible_host=2001:db8::1\n[workers]\nb ansible_host=2001:DB8:0::1\n",
        "a and b are one machine: 2001:db8::1, port 22",
    ),
    "a path": ("[masters]\n../a ansible_host=192.0.2.1\n", "'../a' is the name of a host, and files"),
    "an absolute path": ("[masters]\n/etc/a ansible_host=192.0.2.1\n", "'/etc/a' is the name of a host, and files"),
    "a folder": ('{"masters": {"hosts": {"..": {"ansible_host": "192.0.2.1"}}}}', "'..' is the name of a host, and"),
    "a line": ('{"masters": {"hosts": {"a\\nb": {"ansible_host": "192.0.2.1"}}}}', "is the name of a host, and files"),
    "an option": ('{"masters": {"hosts": {"-a": {"ansible_host": "192.0.2.1"}}}}', "'-a' is the name of a host, and"),
}


def test_machines_behind_one_address_with_ports_of_their_own(tmp_path: Path) -> None:
    text = "[masters]\na ansible_host=192.0.2.1 ansible_port=2201\n[workers]\nb ansible_host=192.0.2.1\n"
    assert [one.port for one in given_inventory([written(tmp_path, text)], GROUPS).machines] == [2201, 22]


@pytest.mark.parametrize("name", WRONG)
def test_an_inventory_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    text, says = WRONG[name]
    assert_refused(written(tmp_path, text), says)


def assert_refused(file: Path, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        given_inventory([file], GROUPS)
    assert says in refused.value.summary
    assert str(file) in refused.value.summary
    assert refused.value.hint
    assert "status" not in refused.value.summary


# What Ansible reads, and what checks cannot use: variables of the machine `a`.
UNUSABLE: Mapping[str, tuple[Mapping[str, str], str]] = {
    "name": ({"ansible_host": "no-such-host.invalid"}, "is not an address and has none"),
    "option": ({"ansible_host": "192.0.2.1", "ansible_ssh_args": "-o Nope=1"}, "Bad configuration option: nope"),
    "quotes": ({"ansible_host": "192.0.2.1", "ansible_ssh_args": "'x"}, "a: ansible_ssh_args"),
    "host": ({"ansible_host": "192.0.2.1", "ansible_ssh_extra_args": "b"}, "name another host, 'b'"),
    "no-target": ({"ansible_host": "192.0.2.1", "ansible_ssh_extra_args": "-V"}, "have it connect to nothing"),
    "no-ciphers": ({"ansible_host": "192.0.2.1", "ansible_ssh_args": "-Q cipher"}, "have it connect to nothing"),
    "no-session": (
        {"ansible_host": "192.0.2.1", "ansible_ssh_common_args": "-N"},
        "commands from it: sessiontype none",
    ),
    "forward": ({"ansible_host": "192.0.2.1", "ansible_ssh_extra_args": "-W b:22"}, "commands from it: sessiontype"),
    "no-input": ({"ansible_host": "192.0.2.1", "ansible_ssh_args": "-n"}, "commands from it: stdinnull yes"),
    "command": (
        {"ansible_host": "192.0.2.1", "ansible_ssh_args": "-o RemoteCommand=true"},
        "commands from it: remotecommand true",
    ),
    "background": (
        {"ansible_host": "192.0.2.1", "ansible_ssh_args": "-o ForkAfterAuthentication=yes"},
        "fork",
    ),
    "two-lines": ({"ansible_host": "192.0.2.1", "ansible_user": "a\nb"}, "a: ansible_user 'a\\nb': it has a control"),
    "dash": ({"ansible_ssh_host": "-oProxyCommand=x"}, "a: ansible_ssh_host"),
    "password": ({"ansible_ssh_pass": "x"}, "a: ansible_ssh_pass: checks cannot"),
    "become": (
        {"ansible_host": "::1", "ansible_user": "x", "ansible_become_pass": "y"},
        "a: ansible_become_pass: checks",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_machine_that_cannot_be_used(
    tmp_path: Path, name: str, read: Mapping[str, AnsibleConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Connections({"masters": ("a",)}, {"a": replace(read[f"unusable {name}"], host="a")})
    monkeypatch.setattr("harness.machines.given_inventory.connections", lambda *_: alone)
    assert_refused(written(tmp_path, ""), UNUSABLE[name][1])


BROKEN = {
    "hosts.yml": ("all: [1, 2\n", "yaml: ", "did not find expected ',' or ']'"),
    "hosts.toml": ("[a\n", "toml: ", "Expected ']' at the end of a table declaration"),
    "hosts": ("#!/bin/sh\nexit 3\n", "script: ", "script"),
    "lab.yml": ("plugin: no.such.plugin\n", "auto: ", "unknown plugin 'no.such.plugin'"),
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


SETTINGS = {
    "[defaults\n": "ansible.cfg): File contains no section headers.",
    "[defaults]\nforks = many\n": "DEFAULT_FORKS",
}


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_that_ansible_cannot_begin_with(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.machines.given_inventory.run", run)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(written(tmp_path, text, "ansible.cfg")))
    assert_refused(written(tmp_path, "[masters]\na ansible_host=192.0.2.1\n"), SETTINGS[text])


def test_what_ansible_is_not_even_asked_about(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nope: No such file"):
        given_inventory([tmp_path / "nope"], GROUPS)


def test_the_users_settings_that_have_no_part_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = "[defaults]\nlog_path = log\nstrategy = mitogen_linear\nstdout_callback = nope\ncallbacks_enabled = nope\n"
    written(tmp_path, f"{config}[tags]\nrun = x\nskip = always\n", "ansible.cfg")
    monkeypatch.chdir(tmp_path)
    assert target(machines_of(written(tmp_path, "[masters]\na ansible_host=192.0.2.1 ansible_user=x\n"))["a"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ansible.cfg", "hosts"]


SECONDS = 120.0
BIN = Path(sys.executable).parent
FROM_THE_INVENTORY = {"inventory_hostname", "delegated_vars['ansible_host']", "delegated_vars['ansible_ssh_host']"}
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"
# By option: a value that is not Ansible's own, and ssh's words for it; None: it is refused.
SAMPLES: Mapping[str, tuple[str, Sequence[str] | None]] = {
    "host": ("192.0.2.7", ()),
    "ssh_args": ("-o Compression=yes", ("-o", "Compression=yes")),
    "host_key_checking": ("False", ("-o", "StrictHostKeyChecking=no")),
    "port": ("2222", ("-o", "Port=2222")),
    "private_key_file": ("/k/id", ("-o", 'IdentityFile="/k/id"')),
    "remote_user": ("admin", ("-o", 'User="admin"')),
    "timeout": ("7", ("-o", "ConnectTimeout=7")),
    "reconnection_retries": ("2", ("-o", "ConnectionAttempts=3")),
    "ssh_common_args": ("-J jump", ("-J", "jump")),
    "ssh_extra_args": ("-o 'LocalCommand=a b'", ("-o", "LocalCommand=a b")),
    "password": ("secret", None),
    "pkcs11_provider": ("/lib/p11.so", None),
    "private_key": (KEY, None),
    "ssh_executable": ("/opt/ssh", None),
    "scp_executable": ("/opt/scp", ()),
    "scp_extra_args": ("-l 1", ()),
    "sftp_executable": ("/opt/sftp", ()),
    "sftp_extra_args": ("-l 1", ()),
    "sftp_batch_mode": ("False", ()),
    "ssh_transfer_method": ("piped", ()),
    "pipelining": ("True", ()),
    "control_path": ("/tmp/x", ()),
    "control_path_dir": ("/tmp/x", ()),
    "use_tty": ("False", ()),
    "verbosity": ("1", ()),
    "password_mechanism": ("disable", ()),
    "sshpass_prompt": ("PIN", ()),
    "private_key_passphrase": ("secret", ()),
}
SUDO_SAMPLES: Mapping[str, tuple[str, bool]] = {
    "become_user": ("admin", False),
    "become_exe": ("/opt/sudo", False),
    "become_flags": ("-i", False),
    "become_pass": ("secret", False),
    "sudo_chdir": ("/tmp", True),
}
# Ansible passes its time-out on from [defaults] timeout alone; only a host's variable replaces that.
PASSED_OVER = {"ANSIBLE_SSH_TIMEOUT", "ssh_connection timeout"}


def documented(kind: str, plugin: str) -> dict[str, Any]:
    """Return the options of one of Ansible's plugins, from its own documentation."""
    told = run([BIN / "ansible-doc", "-t", kind, plugin, "--json"], timeout=SECONDS).stdout
    return next(iter(json.loads(told).values()))["doc"]["options"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def ssh_options() -> dict[str, Any]:
    return documented("connection", "ssh")


@pytest.fixture(scope="module")
def sudo_options() -> dict[str, Any]:
    return documented("become", "sudo")


def test_every_option_of_this_ansible_is_judged_once(ssh_options: dict[str, Any], sudo_options: dict[str, Any]) -> None:
    judged = [*WORDS, *REFUSED, *WITHOUT_MEANING]
    assert len(judged) == len(set(judged))
    assert set(ssh_options) <= set(judged)
    assert set(judged) == set(SAMPLES)
    assert set(sudo_options) <= {*SUDO, *SUDO_WITHOUT_MEANING} == set(SUDO_SAMPLES)


def hosts(folder: Path, lines: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write an inventory of hosts with variables."""
    file = folder / "hosts.yml"
    file.write_text(json.dumps({"masters": {"hosts": lines}}), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def read(
    ssh_options: dict[str, Any], sudo_options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, AnsibleConnection]:
    """Return what one run of Ansible reads of a host for each case."""
    lines: dict[str, Mapping[str, Any]] = {
        **{f"option {name}": {name: SAMPLES[option][0]} for name, option in variables_of(ssh_options).items()},
        **{f"sudo {name}": {name: SUDO_SAMPLES[option][0]} for name, option in variables_of(sudo_options).items()},
        **{f"unusable {name}": variables for name, (variables, _) in UNUSABLE.items()},
        **{f"root {name}": variables for name, (variables, _) in OTHER_WAYS.items()},
        **{f"connection {name}": {"ansible_connection": name} for name in (*SSH_NAMES, *OTHER_NAMES)},
        "localhost": {"ansible_host": "192.0.2.1", "ansible_ssh_host": "192.0.2.2"},
        "windows": {"ansible_shell_type": "powershell"},
    }
    return connections([hosts(tmp_path_factory.mktemp("read"), lines)], ["masters"], {}).hosts


def variables_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the option of each variable."""
    return {
        each["name"]: option
        for option, told in options.items()
        for each in told.get("vars", [])
        if each["name"] not in FROM_THE_INVENTORY
    }


def words_of(connection: AnsibleConnection, option: str) -> Sequence[str] | None:
    """Return ssh's words for one option alone; None if it is refused."""
    alone = replace(connection, options={option: connection.options[option]})
    if SAMPLES[option][1] is not None:
        return ssh_words(alone, "hosts")
    with pytest.raises(BadInput, match=re.escape(alone.options[option].place(option))) as refused:
        ssh_words(alone, "hosts")
    assert refused.value.hint
    return None


def test_every_variable_of_every_option(ssh_options: dict[str, Any], read: Mapping[str, AnsibleConnection]) -> None:
    option_of = variables_of(ssh_options)
    assert {name: read[f"option {name}"].options[option].place(option) for name, option in option_of.items()} == {
        name: name for name in option_of
    }
    seen = {name: words_of(read[f"option {name}"], option) for name, option in option_of.items()}
    assert seen == {
        name: list(expected) if (expected := SAMPLES[option][1]) is not None else None
        for name, option in option_of.items()
    }
    for name, option in option_of.items():
        if option == "host":
            assert read[f"option {name}"].value("host") == "192.0.2.7"


def test_the_last_of_an_options_names_counts_as_in_ansible(read: Mapping[str, AnsibleConnection]) -> None:
    assert read["localhost"].value("host") == "192.0.2.2"


@pytest.mark.parametrize("turn", range(2))
def test_every_environment_variable(
    tmp_path: Path, ssh_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    names = {option: [each["name"] for each in told.get("env", [])] for option, told in ssh_options.items()}
    assert max(map(len, names.values())) == 2
    option_of = {each[turn]: option for option, each in names.items() if len(each) > turn}
    for name, option in option_of.items():
        monkeypatch.setenv(name, SAMPLES[option][0])
    connection = connections([hosts(tmp_path, {"a": {}})], ["masters"], {}).hosts["a"]
    assert_samples(connection, option_of)


@pytest.mark.parametrize("turn", range(3))
def test_every_key_of_ansible_cfg(
    tmp_path: Path, ssh_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    keys = {
        option: [(each["section"], each["key"]) for each in told.get("ini", [])] for option, told in ssh_options.items()
    }
    assert max(map(len, keys.values())) == 3
    chosen = {each[turn]: option for option, each in keys.items() if len(each) > turn}
    sections: dict[str, list[str]] = {}
    for (section, key), option in chosen.items():
        sections.setdefault(section, []).append(f"{key} = {SAMPLES[option][0]}")
    config = tmp_path / "ansible.cfg"
    config.write_text("\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in sections.items()))
    monkeypatch.setenv("ANSIBLE_CONFIG", str(config))
    connection = connections([hosts(tmp_path, {"a": {}})], ["masters"], {}).hosts["a"]
    assert_samples(connection, {" ".join(key): option for key, option in chosen.items()})


def assert_samples(connection: AnsibleConnection, option_of: Mapping[str, str]) -> None:
    """Compare an option's words with those of the sample that a setting has."""
    expected = {
        name: list(words) if (words := SAMPLES[option][1]) is not None else None
        for name, option in option_of.items()
        if name not in PASSED_OVER
    }
    assert {name: words_of(connection, option_of[name]) for name in expected} == expected


def test_ssh_is_asked_for_what_ansible_asks_it_for(
    tmp_path: Path, ssh_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    option_of = variables_of({option: ssh_options[option] for option in (*WORDS, "host")})
    lines = {
        f"host-{name}": {"ansible_host": f"192.0.2.{number}", name: SAMPLES[option][0]}
        for number, (name, option) in enumerate(option_of.items())
    }
    file = hosts(tmp_path, lines)
    ours = connections([file], ["masters"], {}).hosts
    calls = calls_of_ansible(tmp_path, file, monkeypatch)
    seen = {host: resolved([*ssh_words(one, "hosts"), str(one.value("host"))]) for host, one in ours.items()}
    assert sorted(map(sorted, seen.values())) == sorted(sorted(resolved(words)) for words in calls)


def calls_of_ansible(folder: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let Ansible run a command on every host by an ssh that only writes down what it is asked for."""
    programs, calls = folder / "bin", folder / "calls"
    programs.mkdir()
    calls.mkdir()
    fake = programs / "ssh"
    fake.write_text(
        f"#!{sys.executable}\nimport json, sys, tempfile\n"
        f"json.dump(sys.argv[1:], tempfile.NamedTemporaryFile('w', dir={str(calls)!r}, delete=False))\n"
    )
    fake.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{BIN}:/usr/bin:/bin")
        patch.setenv("ANSIBLE_HOME", str(folder / "ansible"))
        run([BIN / "ansible", "-i", inventory, "masters", "-m", "raw", "-a", "true"], timeout=SECONDS)
    argvs = [json.loads(file.read_text()) for file in calls.iterdir()]
    return [argv[:-1] for argv in argvs if argv[:1] != ["-o"] or "true" in argv[-1]]


SAME = (
    "hostname",
    "port",
    "user",
    "identityfile",
    "connecttimeout",
    "stricthostkeychecking",
    "proxyjump",
    "compression",
    "localcommand",
)


def resolved(words: Sequence[str]) -> list[str]:
    """Return what ssh makes of its words, as far as they say where it goes, as whom and with what."""
    lines = run(["ssh", "-F", "none", "-G", *words], timeout=SECONDS).stdout.splitlines()
    return [line for line in lines if line.split(" ")[0] in SAME]


def connection_with(**values: str) -> AnsibleConnection:
    options = {option: OptionValue(value, f"var: ansible_{option}") for option, value in values.items()}
    return AnsibleConnection("a", "ansible.plugins.connection.ssh", options)


def test_an_option_of_a_newer_ansible_is_refused_once_it_is_set() -> None:
    with pytest.raises(BadInput, match="ansible_teleport: vmatrix does not know the option teleport"):
        ssh_words(connection_with(teleport="x"), "hosts")
    unset = replace(connection_with(), options={"teleport": OptionValue("x", "default")})
    assert ssh_words(unset, "hosts") == []


def test_every_variable_of_sudo(sudo_options: dict[str, Any], read: Mapping[str, AnsibleConnection]) -> None:
    for name, option in variables_of(sudo_options).items():
        connection = read[f"sudo {name}"]
        if SUDO_SAMPLES[option][1]:
            refuse_other_root(connection, "admin", "hosts")
            continue
        with pytest.raises(BadInput, match=f"hosts: sudo {name}: {name}"):
            refuse_other_root(connection, "admin", "hosts")
        if option != "become_user":
            refuse_other_root(connection, "root", "hosts")


OTHER_WAYS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "ansible_become: false": ({"ansible_become": False}, "ansible_become is false"),
    "su": ({"ansible_become_method": "su"}, "ansible_become_method: admin becomes root by su"),
}


def test_roots_other_ways(read: Mapping[str, AnsibleConnection]) -> None:
    for name, (_, says) in OTHER_WAYS.items():
        refuse_other_root(read[f"root {name}"], "root", "hosts")
        with pytest.raises(BadInput, match=says):
            refuse_other_root(read[f"root {name}"], "admin", "hosts")


SSH_NAMES = ("ssh", "ansible.builtin.ssh", "ansible.legacy.ssh", "smart")
OTHER_NAMES = ("local", "ansible.builtin.local", "winrm", "psrp")


def test_the_names_of_ssh_and_of_what_is_not_ssh(read: Mapping[str, AnsibleConnection]) -> None:
    for name in SSH_NAMES:
        assert ssh_words(read[f"connection {name}"], "hosts")[0] == "-C"
    for name in OTHER_NAMES:
        with pytest.raises(BadInput, match=f"hosts: connection {name}: ansible_connection: Ansible reaches it by"):
            ssh_words(read[f"connection {name}"], "hosts")


def test_a_shell_of_windows(read: Mapping[str, AnsibleConnection]) -> None:
    with pytest.raises(BadInput, match="hosts: windows: ansible_shell_type: its shell is powershell"):
        ssh_words(read["windows"], "hosts")
