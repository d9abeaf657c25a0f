"""An inventory that people wrote, read by Ansible itself: machines of their own, and how SSH reaches them."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import read_bytes
from harness.machines.runner import actions, callbacks
from harness.machines.runner.playbook_output import ended_by, refusal_in
from harness.model import Machine, PlannedMachine
from harness.proc import CommandFailed, Completed, pasteable, run

READ_SECONDS = 120.0  # against hanging: Ansible starts slowly on a busy host, and a dynamic inventory asks a cloud
STRICT = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "1"}
# What the user's ansible.cfg may have, and what has no part in how a host is reached: it would log, report, skip the
# task, or put another strategy's connections in the place of Ansible's own.
QUIET = {
    **STRICT,
    "ANSIBLE_ACTION_PLUGINS": str(actions.FOLDER),
    "ANSIBLE_CALLBACK_PLUGINS": str(callbacks.FOLDER),
    "ANSIBLE_CALLBACKS_ENABLED": "vmatrix_events",
    "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
    "ANSIBLE_STRATEGY": "ansible.builtin.linear",
    "ANSIBLE_LOG_PATH": os.devnull,
    "ANSIBLE_RETRY_FILES_ENABLED": "false",
    "ANSIBLE_RUN_TAGS": "",
    "ANSIBLE_SKIP_TAGS": "",
}
SSH = "ansible.plugins.connection.ssh"  # the module of the plugin that `ssh` and `ansible.builtin.ssh` name
SUDO_FLAGS = {"-H", "-S", "-n"}  # Ansible's own; others make it another sudo than the checks'

MESSAGE = re.compile(r"\n(?=\[|ERROR! )")  # the beginning of one of Ansible's messages, which may have several lines
UNPARSED = re.compile(r"\[WARNING\]: (?:\* )?Failed to parse .*?with '?(?P<plugin>[\w.]+)'? plugin: (?P<why>.+)")
UNREAD = re.compile(r"Completely failed to parse inventory source (?P<source>\S+)")
PLUGINS = {".yml": "yaml", ".yaml": "yaml", ".json": "yaml", ".toml": "toml", ".ini": "ini"}  # by a file's suffix
CONFIGURES = "Plugin configuration YAML file"  # what plugin `yaml` says of a file that another plugin reads
FATAL = "ERROR: "  # of a setting that Ansible cannot begin with; a traceback comes after it
REASON_LENGTH = 300


@dataclass(frozen=True)
class OptionValue:
    """An option's value, and where Ansible found it: "var: NAME", "env: NAME", "default" or a file."""

    value: Any
    origin: str

    def place(self, option: str) -> str:
        """Return what a person has to look for."""
        kind, _, name = self.origin.partition(": ")
        if kind == "var":
            return name
        if kind == "env":
            return f"the environment variable {name}"
        return f"{option} of {self.origin}" if self.origin != "default" else option


@dataclass(frozen=True)
class AnsibleConnection:
    """What Ansible would use for a host.

    plugin: the connection plugin's module.  shell: the family of the host's shell.
    become: the plugin by which `become: true` would become another user; None where a variable says not to.
    values: the inventory's values that were asked for, by name.
    """

    host: str
    plugin: str
    options: Mapping[str, OptionValue]
    shell: str = "sh"
    become: str | None = "sudo"
    become_options: Mapping[str, OptionValue] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> AnsibleConnection:
        """Return what the action plugin wrote down."""
        options, become_options = (
            {name: OptionValue(**option) for name, option in written[key].items()}
            for key in ("options", "become_options")
        )
        same = {key: written[key] for key in ("host", "plugin", "shell", "become", "values")}
        return cls(options=options, become_options=become_options, **same)

    def value(self, option: str) -> Any:
        """Return an option's value; None where this Ansible does not know it."""
        return self.options[option].value if option in self.options else None


@dataclass(frozen=True)
class Connections:
    """The members of the groups that were asked for, in the inventory's order, and each member's connection."""

    groups: Mapping[str, tuple[str, ...]]
    hosts: Mapping[str, AnsibleConnection]


# By option, in the order in which Ansible passes them: ssh's words for a value that is set.
WORDS: Mapping[str, Callable[[Any], Sequence[str]]] = {
    "ssh_args": lambda value: shlex.split(str(value)),
    "host_key_checking": lambda value: () if value else ("-o", "StrictHostKeyChecking=no"),
    "port": lambda value: ("-o", f"Port={value}"),
    "private_key_file": lambda value: ("-o", f'IdentityFile="{Path(str(value)).expanduser()}"'),
    "remote_user": lambda value: ("-o", f'User="{value}"'),
    "timeout": lambda value: ("-o", f"ConnectTimeout={value}"),
    "reconnection_retries": lambda value: ("-o", f"ConnectionAttempts={int(value) + 1}") if value else (),
    "ssh_common_args": lambda value: shlex.split(str(value)),
    "ssh_extra_args": lambda value: shlex.split(str(value)),
}
# By option: what is true of a value that can be used, and what to do about another one.
REFUSED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "host": (lambda value: bool(value) and not str(value).startswith("-"), "set it to the host's address or name"),
    "password": (lambda value: not value, "checks log in with a key: put one on the machine, and leave this out"),
    "pkcs11_provider": (lambda value: not value, "name the provider in ssh's own configuration: PKCS11Provider"),
    "private_key": (lambda value: not value, "write the key to a file, and name that: ansible_ssh_private_key_file"),
    "ssh_executable": (
        lambda value: str(value) == "ssh" or shutil.which(str(value)) == shutil.which("ssh"),
        "checks run `ssh`: put that program first in PATH",
    ),
}
# By option: why it says nothing of a connection over which checks run commands.
WITHOUT_MEANING: Mapping[str, str] = {
    **dict.fromkeys(
        ("scp_executable", "scp_extra_args", "sftp_executable", "sftp_extra_args", "sftp_batch_mode"),
        "checks copy no files",
    ),
    "ssh_transfer_method": "checks copy no files",
    "pipelining": "a check's program comes with its command",
    "control_path": "each run has sockets of its own",
    "control_path_dir": "each run has sockets of its own",
    "use_tty": "checks use no terminal",
    "verbosity": "says how much ssh prints",
    "password_mechanism": "for a password, which is refused",
    "sshpass_prompt": "for a password, which is refused",
    "private_key_passphrase": "for a key in a variable, which is refused",
}
# The same of the plugin `sudo`, where the user is not root: checks run commands as root by `sudo`.
SUDO: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "become_user": (lambda value: value == "root", "checks run as root: leave it out"),
    "become_exe": (lambda value: value in {"sudo", "/usr/bin/sudo"}, "checks run `sudo`: leave it out"),
    "become_flags": (
        lambda value: set(str(value or "").split()) <= SUDO_FLAGS,
        "checks run `sudo` without flags of its own: leave it out",
    ),
    "become_pass": (lambda value: not value, "let the user run sudo without a password, and leave this out"),
}
SUDO_WITHOUT_MEANING: Mapping[str, str] = {"sudo_chdir": "checks name all paths in full"}


def connections(inventories: Sequence[Path], groups: Sequence[str], values: Mapping[str, str]) -> Connections:
    """Ask Ansible what it would use for each host of some groups; nothing is connected to.

    Args:
        inventories: files and folders, as after `ansible -i`.
        values: templates that are filled in for each host, by name.

    Raises:
        BadInput: Ansible cannot read an inventory, or not fill in what a host's variables say.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as text:  # one that was killed may write a last file
        folder = Path(text)
        (folder / "connections").mkdir()
        playbook, events = folder / "read.yml", folder / "events"
        arguments = {"folder": str(folder / "connections"), "groups": list(groups), "values": dict(values)}
        play = {"hosts": list(groups), "gather_facts": False, "become": True, "tags": ["always"]}
        task = {"name": "Read the connection", actions.ACTION: arguments}
        playbook.write_text(json.dumps([{**play, "tasks": [task]}]), encoding="utf-8")
        done = _ansible("ansible-playbook", inventories, str(playbook), env={callbacks.EVENTS: str(events)})
        if (ended := ended_by(events)) is not None:
            message = str(ended.first.result.get("msg", "no message")).removeprefix("Task failed: ")
            raise BadInput(
                f"{_named(inventories)}: {ended.first.host}: {message}",
                hint=f"ansible {ended.first.host}{_words(inventories)} -m ping says the same",
            )
        if done.returncode != 0:
            raise _unread(inventories, done)
        return _read(folder / "connections")


def known_groups(inventories: Sequence[Path]) -> list[str]:
    """Return the names of an inventory's groups."""
    done = _ansible("ansible-inventory", inventories, "--list")
    if done.returncode != 0:
        raise _unread(inventories, done)
    listed: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return sorted(set(listed) - {"_meta", "all", "ungrouped"})


def ssh_words(connection: AnsibleConnection, inventory: str) -> list[str]:
    """Return ssh's options for a host, as Ansible would pass them.

    Args:
        inventory: its name in messages.

    Raises:
        BadInput: the host is not reached by ssh, or an option says what our connections cannot do.
    """
    where = f"{inventory}: {connection.host}"
    if connection.plugin != SSH:
        name = connection.plugin.rpartition(".")[2]
        raise BadInput(
            f"{where}: ansible_connection: Ansible reaches it by {name}, and checks by ssh",
            hint="check machines that ssh reaches, or correct ansible_connection",
        )
    if connection.shell in {"powershell", "cmd"}:
        raise BadInput(
            f"{where}: ansible_shell_type: its shell is {connection.shell}, and checks are for Linux",
            hint="leave the host out of the inventory's groups",
        )
    for option, set_to in connection.options.items():
        _refuse_option(where, option, set_to, REFUSED, {*WORDS, *WITHOUT_MEANING})
    words: list[str] = []
    for option, words_of in WORDS.items():
        if (value := connection.value(option)) is not None and value != "":
            try:
                words += words_of(value)
            except ValueError as error:
                place = connection.options[option].place(option)
                raise BadInput(f"{where}: {place} {value!r}: {error}", hint="correct its quotation marks") from error
            if any(not character.isprintable() for character in str(value)):
                place = connection.options[option].place(option)
                raise BadInput(f"{where}: {place} {value!r}: it has a control character", hint="remove it")
    return words


def refuse_other_root(connection: AnsibleConnection, user: str, inventory: str) -> None:
    """Refuse a host on which Ansible would become root in another way than checks do, or not at all.

    Args:
        user: whom ssh logs in as.
    """
    where = f"{inventory}: {connection.host}"
    if user == "root":
        becomes = connection.become_options.get("become_user")
        if becomes is not None:
            _refuse_option(where, "become_user", becomes, SUDO, set())
        return
    if connection.become is None:
        raise BadInput(
            f"{where}: ansible_become is false, and checks run as root, which {user} is not",
            hint="leave ansible_become out, and let the user run sudo without a password",
        )
    if connection.become != "sudo":
        raise BadInput(
            f"{where}: ansible_become_method: {user} becomes root by {connection.become}, and checks use sudo",
            hint="let the user run sudo without a password, and leave ansible_become_method out",
        )
    for option, set_to in connection.become_options.items():
        _refuse_option(where, option, set_to, SUDO, set(SUDO_WITHOUT_MEANING))


def _refuse_option(
    where: str,
    option: str,
    set_to: OptionValue,
    refused: Mapping[str, tuple[Callable[[Any], bool], str]],
    usable: set[str],
) -> None:
    if option in refused:
        usual, remedy = refused[option]
        if not usual(set_to.value):
            shown = "" if isinstance(set_to.value, bool) else f" {set_to.value!r}"
            raise BadInput(f"{where}: {set_to.place(option)}{shown}: checks cannot connect like this", hint=remedy)
    elif option not in usable and set_to.origin != "default":
        raise BadInput(
            f"{where}: {set_to.place(option)}: vmatrix does not know the option {option} of this Ansible",
            hint="leave it out, or use the ansible-core that vmatrix is installed with",
        )


def _read(folder: Path) -> Connections:
    written = [json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()]
    groups = {name: tuple(hosts) for each in written for name, hosts in each["groups"].items()}
    return Connections(groups, {each["host"]: AnsibleConnection.of(each) for each in written})


def _ansible(
    program: str, inventories: Sequence[Path], *arguments: str, env: Mapping[str, str] | None = None
) -> Completed:
    """Run a program of our own Ansible with the user's settings, but for what has no part in a connection."""
    argv = [str(Path(sys.executable).parent / program), *_inventories(inventories), *arguments]
    with tempfile.TemporaryDirectory() as own:
        folders = {"ANSIBLE_LOCAL_TEMP": own}
        if not Path(os.environ.get("ANSIBLE_HOME") or "~/.ansible").expanduser().exists():
            folders["ANSIBLE_HOME"] = own  # Ansible would make it; one that is there may have plugins and collections
        try:
            return run(argv, timeout=READ_SECONDS, check=False, env={**QUIET, **folders, **(env or {})})
        except CommandFailed as failed:
            raise BadInput(
                f"{_named(inventories)}: {failed.summary}", hint="does a dynamic inventory wait for something?"
            ) from failed


def _unread(inventories: Sequence[Path], done: Completed) -> BadInput:
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")
    fatal = next((line.removeprefix(FATAL) for line in lines if line.startswith(FATAL)), last)
    why = "; ".join(_unparsed(done.stderr)) or refusal_in(lines) or fatal
    return BadInput(
        f"Ansible cannot read the inventory {_named(inventories)}: {why}",
        hint=f"ansible-inventory{_words(inventories)} --list says the same",
        detail="\n".join(lines[-15:]),
    )


def _unparsed(errors: str) -> list[str]:
    """Return why Ansible's inventory plugins could not read a source: those for its kind of file, else all of them."""
    messages = (" ".join(text.split("\n\n")[0].split()) for text in MESSAGE.split(errors))
    whys = {match["plugin"]: match["why"] for text in messages if (match := UNPARSED.match(text)) is not None}
    source = UNREAD.search(errors)
    own = PLUGINS.get(Path(source["source"]).suffix, "script") if source is not None else ""
    own = "auto" if whys.get("yaml", "").startswith(CONFIGURES) else own
    chosen = {own: whys[own]} if own in whys else whys
    return [f"{plugin}: {why[:REASON_LENGTH]}" for plugin, why in chosen.items()]


def _inventories(inventories: Sequence[Path]) -> list[str]:
    return [word for path in inventories for word in ("-i", str(path))]


def _words(inventories: Sequence[Path]) -> str:
    return f" {pasteable(_inventories(inventories))}"


def _named(inventories: Sequence[Path]) -> str:
    return ", ".join(map(str, inventories))


RESOLVE_SECONDS = 30.0  # against hanging: ssh may run programs to read its own configuration
# Variables with a machine's second address; the latter is kubespray's.
VALUES = {"ipv6": "{{ ipv6_address | default(ip6, true) | default('', true) }}"}


@dataclass(frozen=True)
class GivenInventory:
    """The machines of an inventory in the roles that checks know, with the words for ssh to reach each."""

    machines: tuple[Machine, ...]


ARGUMENTS = "ansible_ssh_common_args, ansible_ssh_extra_args, ansible_ssh_args"
# What `ssh -G` says of an option of ssh, where ssh runs the command that it is given and reads its input.
RUNS_COMMANDS: Mapping[str, str] = {
    "sessiontype": "default",
    "remotecommand": "none",
    "forkafterauthentication": "no",
    "stdinnull": "no",
}


@dataclass(frozen=True)
class SshTarget:
    """Where ssh would go, by its words and its own configuration."""

    hostname: str
    port: int
    user: str


def given_inventory(inventories: Sequence[Path], groups: Mapping[str, tuple[str, ...]]) -> GivenInventory:
    """Read an inventory.

    Args:
        inventories: files and folders that are one inventory together, as after `ansible -i`.
        groups: the inventory's possible names of each of our groups.

    Raises:
        BadInput: it cannot be read, has no control plane, or a machine cannot be reached as Ansible would reach it.
    """
    for path in inventories:
        if not path.is_dir():
            read_bytes(path)
    named = ", ".join(map(str, inventories))
    wanted = list(dict.fromkeys(name for names in groups.values() for name in names))
    read = connections(inventories, wanted, VALUES)
    members = {ours: _members(read, names) for ours, names in groups.items()}
    if not members["control_plane"]:
        known = ", ".join(known_groups(inventories)) or "none"
        raise BadInput(
            f"{named} has no machine in a group {' or '.join(groups['control_plane'])}",
            hint=f"name its groups in the file of facts (`groups`); groups of the inventory: {known}; without a login "
            "to control planes, as where a cloud has them, a cluster cannot be checked",
        )
    names = list(dict.fromkeys(name for group in members.values() for name in group))
    _refuse_names(names, named)
    machines = tuple(
        _machine(read.hosts[name], tuple(g for g, hosts in members.items() if name in hosts), named) for name in names
    )
    _refuse_twice(machines, named)
    return GivenInventory(machines)


def _refuse_names(names: Sequence[str], inventory: str) -> None:
    """Refuse names that cannot be those of files: results and logs of a machine have its name."""
    for name in names:
        if "/" in name or name in {".", ".."} or not name.isprintable() or name != name.strip() or name[:1] == "-":
            raise BadInput(
                f"{inventory}: {name!r} is the name of a host, and files with its results cannot have it",
                hint="give the host a name without / and control characters, and its address by ansible_host",
            )


def _refuse_twice(machines: Sequence[Machine], inventory: str) -> None:
    """Refuse two names of one machine: a Node would be taken for both, and what one lacks be told of the other."""
    first: dict[tuple[str, int], str] = {}
    for machine in machines:
        earlier = first.setdefault((machine.address, machine.port), machine.name)
        if earlier != machine.name:
            raise BadInput(
                f"{inventory}: {earlier} and {machine.name} are one machine: {machine.address}, port {machine.port}",
                hint="correct ansible_host of one of them, or leave one out of the groups",
            )


def _members(read: Connections, names: tuple[str, ...]) -> list[str]:
    """Return the hosts of the groups with these names."""
    return list(dict.fromkeys(host for name in names for host in read.groups.get(name, ())))


def _machine(connection: AnsibleConnection, groups: tuple[str, ...], inventory: str) -> Machine:
    words = ssh_words(connection, inventory)
    _refuse_absent_key(connection, inventory)
    host = str(connection.value("host"))
    target = _target(connection, words, host, inventory)
    refuse_other_root(connection, target.user, inventory)
    return Machine(
        PlannedMachine(connection.host, groups, 0, 0, 0, ""),
        _address(connection, host, target.hostname, inventory),
        target.port,
        target.user,
        ipv6_address=connection.values["ipv6"],
        ssh_host=host,
        ssh_options=tuple(words),
    )


def _refuse_absent_key(connection: AnsibleConnection, inventory: str) -> None:
    """Refuse a key that is not there: ssh would say so in a whisper, and try others."""
    key = str(connection.value("private_key_file") or "")
    path = Path(key).expanduser()
    if key and "%" not in key and "${" not in key and not path.is_file():  # ssh fills these in
        place = connection.options["private_key_file"].place("private_key_file")
        raise BadInput(
            f"{inventory}: {connection.host}: {place}: {path} is not a file",
            hint="correct the path, or leave it to ssh's own settings",
        )


def _target(connection: AnsibleConnection, words: Sequence[str], host: str, inventory: str) -> SshTarget:
    """Ask ssh where it would go: what Ansible does not say is in ssh's own configuration."""
    done = run(["ssh", "-G", *words, "--", host], timeout=RESOLVE_SECONDS, check=False)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise BadInput(
            f"{inventory}: {connection.host}: ssh refuses its options: {why}",
            hint=f"look at {ARGUMENTS} and ~/.ssh/config",
        )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    if said.get("host", host) != host:
        raise BadInput(
            f"{inventory}: {connection.host}: ssh's options name another host, {said['host']!r}, before {host!r}",
            hint=f"{ARGUMENTS} have options alone",
        )
    if "hostname" not in said:
        raise BadInput(
            f"{inventory}: {connection.host}: ssh's options have it connect to nothing: {done.stdout.strip()[:80]!r}",
            hint=f"take options such as -V and -Q out of {ARGUMENTS}",
        )
    for option, usual in RUNS_COMMANDS.items():
        if said.get(option, usual) != usual:
            raise BadInput(
                f"{inventory}: {connection.host}: ssh's options keep checks' commands from it: {option} {said[option]}",
                hint=f"take -N, -W, -s, -f, -n and RemoteCommand out of {ARGUMENTS} and ~/.ssh/config",
            )
    return SshTarget(said["hostname"], int(said["port"]), said["user"])


def _address(connection: AnsibleConnection, host: str, hostname: str, inventory: str) -> str:
    """Return the machine's address, which is its Node's."""
    for text in (host, hostname):
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            pass
    try:
        return str(socket.getaddrinfo(hostname, None)[0][4][0])
    except (OSError, UnicodeError) as error:
        raise BadInput(
            f"{inventory}: {connection.host}: {hostname!r} is not an address and has none: {error}",
            hint="set ansible_host to its address",
        ) from error
