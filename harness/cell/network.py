"""A cell's network: its binding, what its NetworkPolicy allows, and the mirror's URLs as guests see them.

The rest of the policy is in vm-templates/network-policy.yml.j2. The network plugin enforces it, or does not: `vmatrix
doctor` tries it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from harness.cell import manifests
from harness.cell.site import Site
from harness.errors import BadInput, InfraError
from harness.kube.client import Json
from harness.kube.in_cluster import own_namespace
from harness.machines.kubevirt.manifests import MASQUERADE
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
    found = mirror.over(ip_version(str(variables.get(PODS) or "")))
    return replace(found, prefix=str(variables.get(PREFIX) or ""))


NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server labels every namespace with its name
INTERNET: Feature = "internet"
# RFC 1918 and 6598, link-local (a cloud's metadata is there), loopback; IPv6's unique local and link-local
NOT_INTERNET = {
    "0.0.0.0/0": ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    "::/0": ("fc00::/7", "fe80::/10"),
}
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """An address that machines connect to, and the setting that names it."""

    setting: str
    host: str
    port: int


def outside(site: Site, cell: Cell) -> manifests.Outside:
    """Return what a cell's policy allows beside its own machines, virt-api and DNS.

    Raises:
        InfraError: the name of the mirror or the registry cannot be resolved.
    """
    ways_out = [
        way
        for endpoint in (*endpoints(mirror_of(site.mirror, cell.vars)), *_pulls(site, cell))
        for way in _to(endpoint, known=bool(site.egress_networks))
    ]
    ways_out += [{"to": [_block(network)]} for network in site.egress_networks]
    if needs_internet(site, cell):
        ways_out += [{"to": [_block(network, *inner)]} for network, inner in NOT_INTERNET.items()]
    ways_in = [_block(network) for network in site.ingress_networks]
    if site.access == "direct":
        ways_in += _ours(site.cluster.server, os.environ)
    return manifests.Outside(tuple(ways_in), tuple(ways_out))


def endpoints(mirror: Mirror) -> tuple[Endpoint, ...]:
    """Return where machines get binaries and container images."""
    http, registry = urlsplit(mirror.http), urlsplit(f"//{mirror.registry}")
    return (
        Endpoint("mirror_http", http.hostname or "", http.port or PORTS.get(http.scheme, 80)),
        Endpoint("registry", registry.hostname or "", registry.port or PORTS["https"]),
    )


def _pulls(site: Site, cell: Cell) -> Iterator[Endpoint]:
    """Yield where machines pull what is delivered into their cluster."""
    if cell.pulls_deliveries and site.pulls:
        url = urlsplit(f"//{site.pulls}")
        yield Endpoint("pulls of deliveries", url.hostname or "", url.port or PORTS["https"])


def needs_internet(site: Site, cell: Cell) -> bool:
    """Tell whether one of a cell's values needs upstream sites."""
    return INTERNET in needs_of(site.spec, cell)


def _to(endpoint: Endpoint, *, known: bool) -> Iterator[Json]:
    """Yield the rule that lets machines reach an endpoint.

    known: whether the settings name networks that machines reach; then a name that only guests can resolve is fine.
    """
    inside = _service_namespace(endpoint.host)
    if inside:  # policies see the pods behind a service, on ports of their own
        yield {"to": [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: inside}}}]}
        return
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        if known:
            return
        raise InfraError(
            f"{endpoint.setting}: {endpoint.host} cannot be resolved ({error.strerror or error}), so the cell's "
            "NetworkPolicy cannot allow it",
            hint=f"use an address in {endpoint.setting}, or name its network in network_policy_egress",
        ) from error
    addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
    yield {
        "to": [_block(_single(address)) for address in addresses],
        "ports": [{"protocol": "TCP", "port": endpoint.port}],
    }


def _service_namespace(host: str) -> str:
    """Return the namespace in the name of a Service (NAME.NAMESPACE.svc, with or without a domain), "" of another."""
    words = host.split(".")
    return words[1] if len(words) > 2 and words[2] == "svc" else ""


def _ours(server: str, environment: Mapping[str, str]) -> Iterator[Json]:
    """Yield where direct connections of this process come from: its pod's namespace, its address on the way there."""
    namespace = own_namespace(environment)
    if namespace:
        yield {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}}}
    url = urlsplit(server)
    try:
        family, kind, _, _, target = socket.getaddrinfo(url.hostname, url.port or 443, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # sends nothing: only the route is looked up
            address = str(probe.getsockname()[0])
    except OSError:  # no way to the API server either, which is told elsewhere
        return
    if not ip_address(address).is_loopback:
        yield _block(_single(address))


def _single(address: str) -> str:
    parsed = ip_address(address.partition("%")[0])
    return f"{parsed}/{parsed.max_prefixlen}"


def _block(cidr: str, *inner: str) -> Json:
    return {"ipBlock": {"cidr": cidr, **({"except": list(inner)} if inner else {})}}
