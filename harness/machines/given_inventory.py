"""An inventory that people wrote, read by Ansible itself: machines of their own, and how SSH reaches them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput
from harness.files import read_bytes
from harness.machines.ansible_connection import (
    AnsibleConnection,
    Connections,
    connections,
    known_groups,
    refuse_other_root,
    ssh_words,
)
from harness.model import Machine, PlannedMachine
from harness.proc import run

RESOLVE_SECONDS = 30.0  # against hanging: ssh may run programs to read its own configuration
# Variables with a machine's second address; the latter is kubespray's.
VALUES = {"ipv6": "{{ ipv6_address | default(ip6, true) | default('', true) }}"}


@dataclass(frozen=True)
class GivenInventory:
    """The machines of an inventory in the roles that checks know, with the words for ssh to reach each."""

    machines: tuple[Machine, ...]


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
            hint=f"name its groups in the file of facts (`groups`); groups of the inventory: {known}",
        )
    names = list(dict.fromkeys(name for group in members.values() for name in group))
    return GivenInventory(
        tuple(
            _machine(read.hosts[name], tuple(g for g, hosts in members.items() if name in hosts), named)
            for name in names
        )
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
            hint="look at ansible_ssh_common_args, ansible_ssh_extra_args, ansible_ssh_args and ~/.ssh/config",
        )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    if said.get("host", host) != host:
        raise BadInput(
            f"{inventory}: {connection.host}: ssh's options name another host, {said['host']!r}, before {host!r}",
            hint="ansible_ssh_common_args, ansible_ssh_extra_args and ansible_ssh_args have options alone",
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
