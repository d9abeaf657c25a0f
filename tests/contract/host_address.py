"""Where importers reach this host: what an instance of this host knows, or the way to the cluster's API.

A cluster of this host in a container publishes its API on 127.0.0.1, which in an importer's pod is the pod itself.
Where CDI is the embedded one, importers are on this host, and reach whatever it does.
"""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from urllib.parse import urlsplit

from harness import providers
from harness.embedded.operands import PROVISIONER
from harness.errors import BadInput
from harness.infra.host.layout import instances_dir, layout_of, load_record
from harness.infra.host.network import address_of
from harness.kube.client import Cluster
from harness.kube.resources import STORAGE_CLASS
from tests.contract.limits import patience


def host_address(kubeconfig: Path, given: str | None = None) -> str:
    """Return the address at which a cluster's importers reach this host.

    Args:
        given: what the caller says it is.

    Raises:
        BadInput: importers run in pods, which cannot reach that address.
    """
    cluster = Cluster.from_kubeconfig(kubeconfig, patience=patience())
    server = cluster.server
    address = given or _of_instance(server) or _way_to(server)
    if _is_loopback(address) and not _importers_are_here(cluster):
        how = "--host-address" if given else f"the way to {server}"
        raise BadInput(
            f"importers run in pods of the cluster and cannot reach this host at {address} ({how})",
            hint="pass --host-address ADDRESS, an address of this host that pods reach, such as the one on the network "
            "of the cluster's nodes",
        )
    return address


def _of_instance(server: str) -> str | None:
    """Return the address of the instance on this host that has an API, None when none has."""
    for provider in providers.names():
        for folder in sorted(instances_dir(provider).glob("*/")):
            layout = layout_of(folder.name, provider)
            found = load_record(layout)
            if found is not None and layout.kubeconfig.is_file() and _server_of(layout.kubeconfig) == server:
                return address_of(found.index)
    return None


def _server_of(kubeconfig: Path) -> str:
    """Return the URL of a kubeconfig's API, "" when it cannot be used: it may be half made."""
    try:
        return Cluster.from_kubeconfig(kubeconfig, patience=patience()).server
    except BadInput:
        return ""


def _way_to(url: str) -> str:
    """Return this host's own address on the way to a URL's host."""
    target = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((target.hostname or "", target.port or 443))  # sends nothing: only the route is looked up
        return str(probe.getsockname()[0])


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _importers_are_here(cluster: Cluster) -> bool:
    """Tell whether the embedded CDI imports for a cluster: it alone has its storage class."""
    return any(found.get("provisioner") == PROVISIONER for found in cluster.list(STORAGE_CLASS).items)
