"""The way to a cell's machines through the infra cluster's API: recorded with the cell, used for the guest's API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from harness.cell.place import Place
from harness.cell.site import Site
from harness.errors import HarnessBug
from harness.files import write_atomically
from harness.kube.tunnels import Tunnels
from harness.model import Machine
from harness.rundir import AttemptDir


def record(site: Site, place: Place, machines: Sequence[Machine], files: AttemptDir) -> list[Machine]:
    """Write down how the machines are reached, where it is not directly; return them with the file that says so.

    Later commands find the file in the attempt's directory, too.
    """
    if site.access == "direct":
        files.tunnels.unlink(missing_ok=True)
        return list(machines)
    if site.kubeconfig is None:
        raise HarnessBug("machines are to be reached through the infra cluster's API, and no kubeconfig leads to it")
    files.logs.mkdir(parents=True, exist_ok=True)
    names = {machine.address: place.name(machine.name) for machine in machines}
    Tunnels(site.kubeconfig, site.context, place.namespace, names, files.tunnels_log, site.timeouts.tunnel_open).save(
        files.tunnels
    )
    return [replace(machine, tunnels=files.tunnels) for machine in machines]


def through(kubeconfig: Path, url: str, copy: Path) -> Path:
    """Write a copy of a guest's kubeconfig whose requests go through a proxy; return its path.

    Server and certificates stay as they are: who reads it sees the same cluster.
    """
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for entry in content.get("clusters") or []:
        entry["cluster"]["proxy-url"] = url
    write_atomically(copy, yaml.safe_dump(content, sort_keys=False), mode=0o600)
    return copy
