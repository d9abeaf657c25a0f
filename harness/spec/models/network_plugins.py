"""matrix/network_plugins.yml: what each network plugin looks like on machines, and what `reset` has to remove of it.

The playbooks read this file, too, so that they and the checks go by the same facts; hence its key.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from harness.spec.base import NAMESPACED, Model, Name, Text

LOOK = "the network plugin's pods' logs; ip route and ip -d link on both machines"
NamespacedName = Annotated[str, StringConstraints(pattern=NAMESPACED)]


class Gateway(StrEnum):
    """What a node's route to another node's pods leads through."""

    NODE = "node"
    SUBNET = "subnet"

    @property
    def words(self) -> str:
        """The same, as a check's claim puts it."""
        return {
            Gateway.NODE: "the other node's address",
            Gateway.SUBNET: "the first address of the other node's pod network",
        }[self]


class Traces(Model):
    """What a plugin leaves behind on a machine and `reset` removes.

    interfaces: names of network interfaces.  route_protocols: routes, by the numbers of their protocols.
    paths: files and folders.  firewall_tables: tables of nftables.
    firewall_chains: chains of iptables, by the beginning of their names.
    """

    interfaces: tuple[Text, ...] = ()
    route_protocols: tuple[int, ...] = ()
    paths: tuple[Text, ...] = ()
    firewall_tables: tuple[Text, ...] = ()
    firewall_chains: tuple[Text, ...] = ()


class NetworkPlugin(Model):
    """One network plugin; the file's own comment explains each key. What it does not say is not judged.

    unit: its systemd unit, enabled on every node; without it, it has none.
    gateway: what a node's route to another node's pods leads through: the other `node`'s address, or the first address
        of the other node's pod `subnet`.
    look: where to look when pods do not reach each other.
    tunnel: interface that wraps packets between nodes; without it, packets travel as they are.
    ipv6_tunnel: the same for packets of IPv6.
    daemon_set: NAMESPACE/NAME of its DaemonSet; without it, it runs no pods.
    image: repository of its image in the registry.  version: the variable with the version of the image.
    replaces_kube_proxy: whether it leads to Services itself, so that kube-proxy may be left out.
    leaves: what `reset` removes.
    """

    unit: Text | None = None
    gateway: Gateway | None = None
    look: Text = LOOK
    tunnel: Text | None = None
    ipv6_tunnel: Text | None = None
    daemon_set: NamespacedName | None = None
    image: Text | None = None
    version: Text | None = None
    replaces_kube_proxy: bool = False
    leaves: Traces = Traces.model_construct()

    @property
    def daemon(self) -> tuple[str, str] | None:
        """The namespace and the name of its DaemonSet."""
        namespace, _, name = (self.daemon_set or "").partition("/")
        return (namespace, name) if name else None


class NetworkPluginsFile(Model):
    """matrix/network_plugins.yml.

    cluster_network_plugins: the network plugins, by the name in the variable `cluster_network_plugin`.
    """

    network_plugins: dict[Name, NetworkPlugin] = Field(alias="cluster_network_plugins", min_length=1)
