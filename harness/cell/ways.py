"""The way to a cell's machines through the infra cluster's API: recorded with the cell, used for the guest's API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from harness.cell.place import Place
from harness.cell.site import Site
from harness.errors import HarnessBug
from harness.kube.tunnels import Tunnels
from harness.model import Machine

FILE = "tunnels.json"
LOG = "tunnels.log"
PROXIED = "kubeconfig.proxied"


def record(site: Site, place: Place, machines: Sequence[Machine], directory: Path) -> list[Machine]:
    """Write down how the machines are reached, where it is not directly; return them with the file that says so.

    Args:
        directory: the cell's, where later commands find the file.
    """
    if site.access == "direct":
        (directory / FILE).unlink(missing_ok=True)
        return list(machines)
    if site.kubeconfig is None:
        raise HarnessBug("machines are to be reached through the infra cluster's API, and no kubeconfig leads to it")
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    names = {machine.address: place.name(machine.name) for machine in machines}
    path = directory / FILE
    Tunnels(site.kubeconfig, site.context, place.namespace, names, logs / LOG).save(path)
    return [replace(machine, tunnels=path) for machine in machines]


def through(kubeconfig: Path, url: str, name: str = PROXIED) -> Path:
    """Write a copy of a guest's kubeconfig whose requests go through a proxy; return its path, beside the original's.

    Server and certificates stay as they are: who reads it sees the same cluster.
    """
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for entry in content.get("clusters") or []:
        entry["cluster"]["proxy-url"] = url
    path = kubeconfig.with_name(name)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path
