"""A cell's network: its binding, what its NetworkPolicy allows, and the mirror's URLs as guests see them.

The rest of the policy is in vm-templates/network-policy.yml.j2. The network plugin enforces it, or does not: `vmatrix
doctor` tries it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.cell import manifests
from harness.cell.site import Site
from harness.errors import BadInput, InfraError
from harness.kube.client import Json
from harness.machines.kubevirt.manifests import MASQUERADE
from harness.machines.network_rules import Endpoint, block, internet, own_peers, rule_to
from harness.model import Cell, Mirror, ip_version
from harness.spec.base import Feature
from harness.spec.networks import PODS
from harness.spec.rules import needs_of
from harness.spec.settings import Sourced


def refuse_masquerade(sourced: Sourced, cells: Sequence[Cell]) -> None:
    """Refuse masquerade for cells of more than one machine, before anything is made.

    Behind masquerade every guest has the address 10.0.2.2: kubelets register with it, etcd and API servers advertise it
    (kubevirt issue 10171). Raises BadInput when names the setting with its file and line, and the first such cell.
    """
    if sourced.settings.binding != MASQUERADE:
        return
    several = [cell for cell in cells if len(cell.machines) > 1]
    if several:
        first = several[0]
        others = f" and {len(several) - 1} more cells" if len(several) > 1 else ""
        raise BadInput(
            f"{sourced.origin['binding']}: binding: masquerade gives each machine the address 10.0.2.2, and "
            f"{first.id}{others} has {len(first.machines)} machines that have to reach each other",
            hint="set binding to bridge, or run cells of one machine: vmatrix run topology=all-in-one",
        )


PREFIX = "cluster_image_prefix"


def mirror_of(mirror: Mirror, variables: Mapping[str, Any]) -> Mirror:
    """Return an infra's mirror as the guest cluster with these variables knows it."""
    address = mirror.over(ip_version(str(variables.get(PODS) or "")))
    return replace(address, prefix=str(variables.get(PREFIX) or ""))


INTERNET: Feature = "internet"
EGRESS = "network_policy_egress"  # the setting that allows more networks


def outside(site: Site, cell: Cell) -> manifests.Outside:
    """Return what a cell's policy allows beside its own machines, virt-api and DNS.

    Raises:
        InfraError: the name of the mirror or the registry cannot be resolved.
    """
    ways_out = list(
        _ways_out(
            (*endpoints(mirror_of(site.mirror, cell.vars)), *_pulls(site, cell)), known=bool(site.egress_networks)
        )
    )
    ways_out += [{"to": [block(network)]} for network in site.egress_networks]
    if needs_internet(site, cell):
        ways_out += internet()
    ways_in = [block(network) for network in site.ingress_networks]
    if site.access == "direct":
        ways_in += own_peers(site.cluster.server, os.environ)
    return manifests.Outside(tuple(ways_in), tuple(ways_out))


def endpoints(mirror: Mirror) -> tuple[Endpoint, ...]:
    """Return where machines get binaries and container images."""
    return Endpoint.of_url("mirror_http", mirror.http), Endpoint.of_registry("registry", mirror.registry)


def _ways_out(ends: Iterable[Endpoint], *, known: bool) -> Iterator[Json]:
    """Yield the rules that let machines reach these.

    known: whether the settings name networks that machines reach; then a name that only guests can resolve is fine.
    """
    for endpoint in ends:
        try:
            yield rule_to(endpoint, EGRESS)
        except InfraError:
            if not known:
                raise


def _pulls(site: Site, cell: Cell) -> Iterator[Endpoint]:
    """Yield where machines pull what is delivered into their cluster."""
    if cell.pulls_deliveries and site.pulls:
        yield Endpoint.of_registry("pulls of deliveries", site.pulls)


def needs_internet(site: Site, cell: Cell) -> bool:
    """Tell whether one of a cell's values needs upstream sites."""
    return INTERNET in needs_of(site.spec, cell)
