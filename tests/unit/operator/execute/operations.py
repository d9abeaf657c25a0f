"""Operations and their folders, for tests."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from harness.operator.api.machine import KeyRef
from harness.operator.decide.desired import Host
from harness.operator.execute.inputs import HOSTS, KEY_FILE, Execution, files_of, key_file

OWNER = {"metadata": {"name": "prod", "uid": "5d7c0c5e-0000-4000-8000-000000000001"}}


def host(name: str, address: str = "10.9.9.2", *groups: str, through: str = "") -> Host:
    """Return a machine; with a key of its own."""
    key = KeyRef(name=f"{name}-ssh")
    return Host(name, f"machine-{name}", "set", groups or ("control_plane",), address, 22, "debian", key, through)


def execution(**changes: Any) -> Execution:
    """Return the first attempt at a deployment of a cluster of two machines."""
    made = Execution(
        cluster="prod",
        namespace="clusters",
        sequence=3,
        operation="deploy",
        entry="cluster.yml",
        hosts=(host("cp-0", "10.9.9.2", "control_plane", "etcd"), host("w-0", "10.9.9.3", "node")),
        image="registry/vmatrix:1",
        deadline_seconds=3600,
        digest="sha256:00",
        variables={"cluster_kubernetes_version": "1.36.3"},
    )
    return replace(made, **changes)


def write_folder(path: Path, made: Execution, *, local: bool = False) -> Path:
    """Write an operation's folder; `local`: its machines are this host, with this Python."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files_of(made).items():
        (path / name).write_text(content, encoding="utf-8")
    if local:
        inventory = yaml.safe_load((path / HOSTS).read_text(encoding="utf-8"))
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        for said in inventory["all"]["hosts"].values():
            said.pop(KEY_FILE)
            said.update(here)
        (path / HOSTS).write_text(yaml.safe_dump(inventory), encoding="utf-8")
    else:
        for one in made.hosts:
            key = path / key_file(one.key)
            key.parent.mkdir(parents=True, exist_ok=True)
            key.write_text(f"key of {one.name}\n", encoding="utf-8")
            key.chmod(0o440)
    return path
