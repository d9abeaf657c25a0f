"""The inventory and variables of a cell as files that a person can run the playbooks with by hand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.machines.reach.ssh import ssh_options
from harness.model import Environment, Machine
from harness.spec.base import Group
from harness.spec.models import Product

GROUPS: tuple[Group, ...] = ("control_plane", "etcd", "node")


def inventory(environment: Environment, product: Product | None = None) -> dict[str, Any]:
    """Return the inventory: all machines with how to reach them, and the groups by our names and by the product's."""
    children: dict[str, dict[str, Any]] = {}
    for group in GROUPS:
        for name in (group, *(product.group_names(group) if product is not None else ())):
            hosts = children.setdefault(name, {"hosts": {}})["hosts"]
            hosts.update({m.name: {} for m in environment.group(group)})
    return {
        "all": {
            "hosts": {m.name: _host(m, environment.private_key) for m in environment.machines},
            "children": children,
        }
    }


def _host(machine: Machine, private_key: Path) -> dict[str, Any]:
    options = ssh_options(private_key, through=machine.tunnels, connect_seconds=machine.connect_seconds)
    return {
        "ansible_host": machine.address,
        "ansible_port": machine.port,
        "ansible_user": machine.user,
        "ansible_ssh_private_key_file": str(private_key),
        "ansible_ssh_common_args": shlex.join(options[2:]),
    }


def write(environment: Environment, variables: Mapping[str, Any], product: Product | None = None) -> None:
    """Write the inventory and the variables into the cell's directory."""
    files = environment.files
    files.hosts.parent.mkdir(parents=True, exist_ok=True)
    files.hosts.write_text(
        yaml.safe_dump(inventory(environment, product), sort_keys=False, width=200), encoding="utf-8"
    )
    files.variables.write_text(yaml.safe_dump(dict(variables), sort_keys=True, width=200), encoding="utf-8")
