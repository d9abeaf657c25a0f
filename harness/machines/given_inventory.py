"""An inventory that people wrote, read by Ansible itself: machines of their own, and how SSH reaches them."""

from __future__ import annotations

import getpass
import ipaddress
import json
import shlex
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.model import Machine, PlannedMachine
from harness.proc import CommandFailed, run
from harness.reading import read_bytes

READ_SECONDS = 60.0  # against hanging: Ansible starts slowly on a busy host
SSH_PORT = 22
STRICT = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "1"}
IPV6 = ("ipv6_address", "ip6")  # variables with a machine's second address; the latter is kubespray's
COMMON, KEY = "ansible_ssh_common_args", "ansible_ssh_private_key_file"


@dataclass(frozen=True)
class GivenInventory:
    """The machines of an inventory in the roles that checks know, and the words for ssh to reach them."""

    machines: tuple[Machine, ...]
    ssh: tuple[str, ...]


def given_inventory(file: Path, groups: Mapping[str, tuple[str, ...]]) -> GivenInventory:
    """Read an inventory.

    Args:
        groups: the inventory's possible names of each of our groups.

    Raises:
        BadInput: it cannot be read, has no control plane, or its machines cannot be reached in one way.
    """
    read = _read(file)
    variables: dict[str, dict[str, Any]] = read.get("_meta", {}).get("hostvars", {})
    members = {ours: _members(read, names) for ours, names in groups.items()}
    names = list(dict.fromkeys(name for group in members.values() for name in group))
    if not members["control_plane"]:
        known = ", ".join(sorted(set(read) - {"_meta", "all", "ungrouped"})) or "none"
        raise BadInput(
            f"{file} has no machine in a group {' or '.join(groups['control_plane'])}",
            hint=f"name its groups in the file of facts (`groups`); groups of the inventory: {known}",
        )
    machines = tuple(
        _machine(name, variables.get(name, {}), tuple(g for g, hosts in members.items() if name in hosts), file)
        for name in names
    )
    return GivenInventory(machines, _ssh(file, {name: variables.get(name, {}) for name in names}))


def _read(file: Path) -> dict[str, Any]:
    read_bytes(file)
    program = Path(sys.executable).parent / "ansible-inventory"
    try:
        with tempfile.TemporaryDirectory() as home:  # Ansible makes folders in the user's own
            env = {**STRICT, "ANSIBLE_HOME": home}
            listed = run([str(program), "-i", str(file), "--list"], timeout=READ_SECONDS, env=env).stdout
    except CommandFailed as failed:
        raise BadInput(
            f"{file} is no inventory of Ansible",
            hint="ansible-inventory -i FILE --list says the same",
            detail=str(failed),
        ) from failed
    found: dict[str, Any] = json.loads(listed[listed.index("{") :])
    return found


def _members(read: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Return the hosts of the groups with these names, those of their children too."""
    found: list[str] = []
    waiting = [name for name in names if name in read]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop(0)
        group = read.get(name, {})
        seen.add(name)
        found += group.get("hosts", [])
        waiting += [child for child in group.get("children", []) if child not in seen]
    return list(dict.fromkeys(found))


def _machine(name: str, variables: Mapping[str, Any], groups: tuple[str, ...], file: Path) -> Machine:
    host = str(variables.get("ansible_host", name))
    port = variables.get("ansible_port", SSH_PORT)
    if not str(port).isdecimal():
        raise BadInput(f"{file}: {name}: ansible_port {port!r} is no port", hint="it is a number, such as 22")
    user = str(variables.get("ansible_user") or getpass.getuser())
    ipv6 = next((str(variables[key]) for key in IPV6 if variables.get(key)), "")
    planned = PlannedMachine(name, groups, 0, 0, 0, "")
    return Machine(planned, _address(file, name, host), int(port), user, ipv6_address=ipv6)


def _address(file: Path, name: str, host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except (OSError, UnicodeError) as error:
        raise BadInput(
            f"{file}: {name}: {host!r} is no address and has none: {error}", hint="set ansible_host to its address"
        ) from error


def _ssh(file: Path, variables: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return ssh's words for the key and whatever else is said; all machines have to be reached in one way."""
    for name in (COMMON, KEY):
        values = sorted({str(each.get(name, "")) for each in variables.values()})
        if len(values) > 1:
            raise BadInput(f"{file}: {name} differs between machines: {', '.join(values)}", hint="use one for all")
    first = next(iter(variables.values()), {})
    key = first.get(KEY)
    if key and not (path := Path(str(key)).expanduser()).is_file():
        raise BadInput(
            f"{file}: {KEY}: {path} is not a file", hint="correct the path, or leave it to ssh's own settings"
        )
    own = ("-i", str(Path(str(key)).expanduser()), "-o", "IdentitiesOnly=yes") if key else ()
    return (*own, *shlex.split(str(first.get(COMMON, ""))))
