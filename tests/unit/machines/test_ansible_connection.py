"""What Ansible's ssh connection would use: every option under every name, and the same command as Ansible's own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.machines.ansible_connection import (
    REFUSED,
    SUDO,
    SUDO_WITHOUT_MEANING,
    WITHOUT_MEANING,
    WORDS,
    AnsibleConnection,
    OptionValue,
    connections,
    refuse_other_root,
    ssh_words,
)
from harness.proc import run

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


def words_of(connection: AnsibleConnection, option: str) -> Sequence[str] | None:
    """Return ssh's words for one option alone; None if it is refused."""
    alone = replace(connection, options={option: connection.options[option]})
    if SAMPLES[option][1] is not None:
        return ssh_words(alone, "hosts")
    with pytest.raises(BadInput, match=re.escape(alone.options[option].place(option))) as refused:
        ssh_words(alone, "hosts")
    assert refused.value.hint
    return None


def test_every_variable_of_every_option(tmp_path: Path, ssh_options: dict[str, Any]) -> None:
    option_of = {
        each["name"]: option
        for option, told in ssh_options.items()
        for each in told.get("vars", [])
        if each["name"] not in FROM_THE_INVENTORY
    }
    file = hosts(tmp_path, {f"host-{name}": {name: SAMPLES[option][0]} for name, option in option_of.items()})
    read = connections([file], ["masters"], {}).hosts
    assert {name: read[f"host-{name}"].options[option].place(option) for name, option in option_of.items()} == {
        name: name for name in option_of
    }
    seen = {name: words_of(read[f"host-{name}"], option) for name, option in option_of.items()}
    assert seen == {
        name: list(expected) if (expected := SAMPLES[option][1]) is not None else None
        for name, option in option_of.items()
    }
    for name, option in option_of.items():
        if option == "host":
            assert read[f"host-{name}"].value("host") == "192.0.2.7"


def test_the_last_of_an_options_names_counts_as_in_ansible(tmp_path: Path) -> None:
    file = hosts(tmp_path, {"localhost": {"ansible_host": "192.0.2.1", "ansible_ssh_host": "192.0.2.2"}})
    assert connections([file], ["masters"], {}).hosts["localhost"].value("host") == "192.0.2.2"


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
    option_of = {
        each["name"]: option
        for option in (*WORDS, "host")
        for each in ssh_options[option].get("vars", [])
        if each["name"] not in FROM_THE_INVENTORY
    }
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


def test_every_variable_of_sudo(tmp_path: Path, sudo_options: dict[str, Any]) -> None:
    option_of = {each["name"]: option for option, told in sudo_options.items() for each in told.get("vars", [])}
    lines = {f"host-{name}": {name: SUDO_SAMPLES[option][0]} for name, option in option_of.items()}
    read = connections([hosts(tmp_path, lines)], ["masters"], {}).hosts
    for name, option in option_of.items():
        connection = read[f"host-{name}"]
        if SUDO_SAMPLES[option][1]:
            refuse_other_root(connection, "admin", "hosts")
            continue
        with pytest.raises(BadInput, match=f"hosts: host-{name}: {name}"):
            refuse_other_root(connection, "admin", "hosts")
        if option != "become_user":
            refuse_other_root(connection, "root", "hosts")


OTHER_WAYS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "ansible_become: false": ({"ansible_become": False}, "ansible_become is false"),
    "su": ({"ansible_become_method": "su"}, "ansible_become_method: admin becomes root by su"),
}


def test_roots_other_ways(tmp_path: Path) -> None:
    read = connections(
        [hosts(tmp_path, {name: values for name, (values, _) in OTHER_WAYS.items()})], ["masters"], {}
    ).hosts
    for name, (_, says) in OTHER_WAYS.items():
        refuse_other_root(read[name], "root", "hosts")
        with pytest.raises(BadInput, match=says):
            refuse_other_root(read[name], "admin", "hosts")


SSH_NAMES = ("ssh", "ansible.builtin.ssh", "ansible.legacy.ssh", "smart")
OTHER_NAMES = ("local", "ansible.builtin.local", "winrm", "psrp")


def test_the_names_of_ssh_and_of_what_is_not_ssh(tmp_path: Path) -> None:
    lines = {f"host-{name}": {"ansible_connection": name} for name in (*SSH_NAMES, *OTHER_NAMES)}
    read = connections([hosts(tmp_path, lines)], ["masters"], {}).hosts
    for name in SSH_NAMES:
        assert ssh_words(read[f"host-{name}"], "hosts")[0] == "-C"
    for name in OTHER_NAMES:
        with pytest.raises(BadInput, match=f"hosts: host-{name}: ansible_connection: Ansible reaches it by"):
            ssh_words(read[f"host-{name}"], "hosts")


def test_a_shell_of_windows(tmp_path: Path) -> None:
    lines = {"a": {"ansible_shell_type": "powershell"}}
    with pytest.raises(BadInput, match="hosts: a: ansible_shell_type: its shell is powershell"):
        ssh_words(connections([hosts(tmp_path, lines)], ["masters"], {}).hosts["a"], "hosts")
