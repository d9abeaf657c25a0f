"""Names and addresses of an instance's machines and networks, by which they are found from the host alone.

Instance `i` of the embedded infrastructure owns 10.(213+i).0.0/16, fd76:6d78:(213+i)::/48 and every name that begins
with `vmx<i>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

MAX_INSTANCES = 16
FIRST_SECOND_OCTET = 213
MAX_NAMESPACES = 250
FIRST_SPARE, LAST_SPARE = 240, 253  # host numbers that load balancers of guests may have
PODS_NETWORK = MAX_NAMESPACES  # of the machine that runs the infra cluster's pods; no cell's
API_PORT = 6443
MIRROR_PORT = 8080
REGISTRY_PORT = 5000
DELIVERIES_PORT = 5001  # the registry that pods of the infra cluster push to
PULLS_PORT = 5002  # where guests pull from that registry, and nobody pushes
UNIQUE_LOCAL = IPv6Network("fd76:6d78::/32")  # of all instances (RFC 4193)
GUEST_PORTS = (REGISTRY_PORT, MIRROR_PORT)  # what every instance serves to guests, over IPv4 and IPv6
IPV4_PORTS = (*GUEST_PORTS, PULLS_PORT)  # all that guests may connect to on their host
PODS_PORTS = (API_PORT, DELIVERIES_PORT)  # what the machine that runs pods may connect to besides
_ID = re.compile(r"[0-9a-f]{1,9}")


def ipv6_address(address: IPv4Address) -> IPv6Address:
    """Return the IPv6 address of who has an IPv4 address of an instance: a /48 an instance, a /64 a VM namespace."""
    _, second, third, fourth = address.packed
    return UNIQUE_LOCAL[(second << 80) + (third << 64) + fourth]


@dataclass(frozen=True)
class Names:
    """The names and addresses of one instance, by its index (0..15)."""

    index: int

    def __post_init__(self) -> None:
        """Refuse an index that has no address range."""
        if not 0 <= self.index < MAX_INSTANCES:
            raise ValueError(f"instance index {self.index} is not in 0..{MAX_INSTANCES - 1}")

    @property
    def instance_network(self) -> IPv4Network:
        """Return the /16 of the instance."""
        return IPv4Network(f"10.{FIRST_SECOND_OCTET + self.index}.0.0/16")

    @property
    def instance_network6(self) -> IPv6Network:
        """Return the /48 of the instance."""
        return IPv6Network((ipv6_address(self.instance_network[0]), 48))

    @property
    def instance_address(self) -> IPv4Address:
        """Return the one host address that the instance's guests may reach, at IPV4_PORTS alone."""
        return self.instance_network[1]

    @property
    def instance_address6(self) -> IPv6Address:
        """Return the same host address for IPv6, at which guests reach GUEST_PORTS."""
        return ipv6_address(self.instance_address)

    @property
    def loopback_address(self) -> IPv4Address:
        """Return the instance's own loopback address, for what the host alone talks to: no guest has a route there."""
        return IPv4Address(f"127.{FIRST_SECOND_OCTET + self.index}.0.1")

    def network(self, namespace_index: int) -> IPv4Network:
        """Return the /24 of a VM namespace."""
        if not 1 <= namespace_index <= MAX_NAMESPACES:
            raise ValueError(f"namespace index {namespace_index} is not in 1..{MAX_NAMESPACES}")
        return IPv4Network((int(self.instance_network.network_address) + (namespace_index << 8), 24))

    def network6(self, namespace_index: int) -> IPv6Network:
        """Return the /64 of a VM namespace."""
        return IPv6Network((ipv6_address(self.network(namespace_index)[0]), 64))

    @property
    def probe_network(self) -> IPv4Network:
        """Return a /24 that no VM namespace gets."""
        return IPv4Network((int(self.instance_network.network_address) + ((MAX_NAMESPACES + 1) << 8), 24))

    def host_address(self, namespace_index: int) -> IPv4Address:
        """Return the host's address in a VM namespace's network."""
        return self.network(namespace_index)[1]

    def host_address6(self, namespace_index: int) -> IPv6Address:
        """Return the host's IPv6 address in a VM namespace's network."""
        return ipv6_address(self.host_address(namespace_index))

    def gateway(self, namespace_index: int) -> IPv4Address:
        """Return the guests' default gateway, which forwards nothing."""
        return self.network(namespace_index)[254]

    def gateway6(self, namespace_index: int) -> IPv6Address:
        """Return the guests' default gateway for IPv6, which forwards nothing."""
        return ipv6_address(self.gateway(namespace_index))

    def spare_addresses(self, namespace_index: int) -> tuple[IPv4Address, IPv4Address]:
        """Return the first and the last address of a VM namespace's network that no machine gets."""
        return self.network(namespace_index)[FIRST_SPARE], self.network(namespace_index)[LAST_SPARE]

    @staticmethod
    def open_ports(namespace_index: int) -> tuple[int, ...]:
        """Return the ports of the instance's address that machines of a VM namespace may connect to."""
        return (*IPV4_PORTS, *PODS_PORTS) if namespace_index == PODS_NETWORK else IPV4_PORTS

    def bridge_netns(self, namespace_index: int) -> str:
        """Return the network namespace that holds a VM namespace's bridge."""
        return f"vmx{self.index}-n{namespace_index}"

    def host_link(self, namespace_index: int) -> str:
        """Return the host's end of the veth into a VM namespace's bridge."""
        return f"vmx{self.index}h{namespace_index}"

    def machine(self, machine_id: str) -> str:
        """Return the name of a machine's nspawn container and of its control groups."""
        if not _ID.fullmatch(machine_id):
            raise ValueError(f"machine id {machine_id!r} is not 1 to 9 hex digits")
        return f"vmx{self.index}-{machine_id}"

    def machine_netns(self, namespace_index: int, machine_id: str) -> str:
        """Return a machine's own network namespace."""
        return f"{self.bridge_netns(namespace_index)}-{machine_id}"

    @staticmethod
    def bridge_port(machine_id: str) -> str:
        """Return a machine's port on its bridge (inside the bridge's network namespace; 10 characters at most)."""
        return f"m{machine_id}"

    def machine_id(self, name: str) -> str | None:
        """Return the machine id in a container or control group name of this instance, None for any other name."""
        match = re.fullmatch(rf"vmx{self.index}-([0-9a-f]{{1,9}})", name)
        return match.group(1) if match else None

    def netns_owner(self, name: str) -> tuple[int, str] | None:
        """Return (namespace index, machine id or "" for the bridge's own) of a network namespace's name."""
        match = re.fullmatch(rf"vmx{self.index}-n([1-9][0-9]{{0,2}})(?:-([0-9a-f]{{1,9}}))?", name)
        return (int(match.group(1)), match.group(2) or "") if match else None
