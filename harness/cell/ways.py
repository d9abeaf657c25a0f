"""The way to a cell's machines through the infra cluster's API, recorded with the cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.cell.place import Place
from harness.cell.site import Site
from harness.errors import HarnessBug
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
