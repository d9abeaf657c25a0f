"""matrix/network_plugins.yml: what each network plugin consists of and leaves on machines.

The file is the one that the playbooks read, so that they and the checks go by the same facts; hence its key.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from harness.spec.base import Model, Name, Text

NamespacedName = Annotated[str, StringConstraints(pattern=r"^[^/]+/[^/]+$")]


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
    """What a plugin leaves behind on a machine and `reset` removes."""

    interfaces: tuple[Text, ...] = ()
    route_protocols: tuple[int, ...] = ()
    paths: tuple[Text, ...] = ()
    firewall_tables: tuple[Text, ...] = ()
    firewall_chains: tuple[Text, ...] = ()


class NetworkPlugin(Model):
    """One network plugin; the file's own comment explains each key."""

    unit: Text
    gateway: Gateway
    look: Text
    tunnel: Text | None = None
    daemon_set: NamespacedName | None = None
    image: Text | None = None
    version: Text | None = None
    leaves: Traces = Traces()

    @property
    def daemon(self) -> tuple[str, str] | None:
        """The namespace and the name of its DaemonSet."""
        namespace, _, name = (self.daemon_set or "").partition("/")
        return (namespace, name) if name else None


class NetworkPluginsFile(Model):
    """matrix/network_plugins.yml"""

    network_plugins: dict[Name, NetworkPlugin] = Field(alias="cluster_network_plugins", min_length=1)
