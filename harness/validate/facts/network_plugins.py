"""What each network plugin leaves in a guest that works: the one place where the checks know plugins apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from harness.errors import HarnessBug


class Gateway(Enum):
    """What a node's route to another node's pods leads through."""

    NODE = "the other node's address"
    SUBNET = "the first address of the other node's pod network"


@dataclass(frozen=True)
class NetworkPlugin:
    """A network plugin.

    unit: the systemd unit that it has on every node.
    gateway: what its routes lead through.
    tunnel: its interface that wraps packets between nodes; None when they travel as they are.
    daemon_set: namespace and name of its DaemonSet; None without one.
    image: the repository of its image; None without one.
    version: the cell's variable with its version; None when it comes with the playbooks.
    look: where to look when pods do not reach each other.
    """

    unit: str
    gateway: Gateway
    tunnel: str | None
    daemon_set: tuple[str, str] | None
    image: str | None
    version: str | None
    look: str


PLUGINS: Mapping[str, NetworkPlugin] = {
    "flannel": NetworkPlugin(
        unit="flannel-cni.path",
        gateway=Gateway.SUBNET,
        tunnel="flannel.1",
        daemon_set=("kube-flannel", "kube-flannel-ds"),
        image="flannel",
        version="cluster_flannel_version",
        look="the network plugin's pods' logs; ip route, ip -d link show flannel.1 and bridge fdb on both machines",
    ),
    "routes": NetworkPlugin(
        unit="pod-routes.service",
        gateway=Gateway.NODE,
        tunnel=None,
        daemon_set=None,
        image=None,
        version=None,
        look="journalctl -u pod-routes; ip route show proto 250 and nft list table ip pod-routes on both machines",
    ),
}


def plugin_named(name: str) -> NetworkPlugin:
    """Return what is known of a network plugin.

    Raises:
        HarnessBug: nothing is, so that the checks would pass without having looked.
    """
    if name not in PLUGINS:
        raise HarnessBug(
            f"the checks know nothing of the network plugin {name!r}, only of {', '.join(PLUGINS)}",
            hint="say in harness/validate/facts/network_plugins.py what it leaves in a guest",
        )
    return PLUGINS[name]
