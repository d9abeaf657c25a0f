"""Networks of machines: a bridge in a network namespace per VM namespace, a port and a namespace per machine.

What a guest can reach is decided inside the bridge's namespace and vanishes with it: its own /24 and /64, and of the
host the mirror and the registry at the instance's address of each IP family. The host forwards nothing that comes in
from a bridge. No firewall rule, route or sysctl of the host outside the interfaces made here is touched; the table in
the host's own namespace that says the same once more is harness/infra/host/firewall.py.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from harness import proc
from harness.embedded.machines.names import GUEST_PORTS, Names, ipv6_address

NETNS = Path("/run/netns")
TIMEOUT = 20.0  # against hanging: one `ip` or `nft` command of this host's kernel
BRIDGE = "br0"
UPLINK = "up0"
# Pings, and what paths need: without "fragmentation needed" a connection can hang.
ICMP = "icmp type { echo-request, echo-reply, destination-unreachable, time-exceeded, parameter-problem }"
_KINDS6 = "echo-request, echo-reply, destination-unreachable, packet-too-big, time-exceeded, parameter-problem"
ICMP6 = f"icmpv6 type {{ {_KINDS6} }}"
NEIGHBOUR = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255"  # what ARP is for IPv4
ANSWER = "tcp flags & (syn | ack) != syn"  # TCP that does not open a connection


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, across processes and threads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def existing() -> set[str]:
    """Return the names of all named network namespaces of the host."""
    return {entry.name for entry in NETNS.iterdir()} if NETNS.is_dir() else set()


def owned(names: Names) -> set[tuple[int, str]]:
    """Return (namespace index, machine id or "" for the bridge's own) of the instance's network namespaces."""
    return {owner for name in existing() if (owner := names.netns_owner(name)) is not None}


def _batch(lines: list[str], *, netns: str = "") -> None:
    """Run several `ip` commands in one process; the first that fails ends it."""
    where = ["-n", netns] if netns else []
    proc.run(["ip", *where, "-batch", "-"], timeout=TIMEOUT, stdin="\n".join(lines) + "\n")


def _sysctl(netns: str, settings: dict[str, str]) -> None:
    """Write sysctls inside a network namespace."""
    script = "\n".join(f"echo {value} > /proc/sys/{key.replace('.', '/')}" for key, value in settings.items())
    proc.run(["ip", "netns", "exec", netns, "sh", "-e"], timeout=TIMEOUT, stdin=script + "\n")


def link_exists(link: str) -> bool:
    """Tell whether the host has a network interface of that name."""
    return Path("/sys/class/net", link).exists()


def create_network(names: Names, namespace_index: int) -> None:
    """Make a VM namespace's bridge, its filter and its veth to the host.

    The host link comes last and complete, so that its presence says that the rest is there.
    """
    remove_network(names, namespace_index)
    netns, link = names.bridge_netns(namespace_index), names.host_link(namespace_index)
    host, gateway = names.host_address(namespace_index), names.gateway(namespace_index)
    proc.run(["ip", "netns", "add", netns], timeout=TIMEOUT)
    # A new namespace copies the host's IPv4 settings: a host that forwards would make a gateway that forwards.
    forwarding = {"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0"}
    _sysctl(netns, {**forwarding, "net.ipv6.conf.all.disable_ipv6": "1"})
    _batch(
        [
            f"link add {BRIDGE} type bridge",
            f"addr add {gateway}/24 dev {BRIDGE}",
            "link set lo up",
            f"link set {BRIDGE} up",
        ],
        netns=netns,
    )
    _sysctl(netns, {f"net.ipv6.conf.{BRIDGE}.disable_ipv6": "0"})  # of the bridge alone: it is the guests' gateway
    _batch([f"addr add {names.gateway6(namespace_index)}/64 dev {BRIDGE} nodad"], netns=netns)
    apply_filter(names, namespace_index)
    proc.run(["ip", "link", "add", f"{link}t", "type", "veth", "peer", "name", UPLINK, "netns", netns], timeout=TIMEOUT)
    # Only what has an address of this network is taken from it, whatever the host does with other interfaces.
    for key, value in (("forwarding", "0"), ("rp_filter", "1")):
        Path(f"/proc/sys/net/ipv4/conf/{link}t/{key}").write_text(value, encoding="utf-8")
    for key, value in (("disable_ipv6", "0"), ("accept_ra", "0"), ("autoconf", "0"), ("forwarding", "0")):
        Path(f"/proc/sys/net/ipv6/conf/{link}t/{key}").write_text(value, encoding="utf-8")
    _batch([f"link set {UPLINK} master {BRIDGE} up"], netns=netns)
    _batch(
        [
            f"addr add {host}/24 dev {link}t",
            f"addr add {names.host_address6(namespace_index)}/64 dev {link}t nodad",
            f"link set {link}t name {link}",
            f"link set {link} up",
        ]
    )


def apply_filter(names: Names, namespace_index: int) -> None:
    """Give a VM namespace's bridge its filter, in the place of what it has, without a moment in between."""
    argv = ["ip", "netns", "exec", names.bridge_netns(namespace_index), "nft", "-f", "-"]
    proc.run(argv, timeout=TIMEOUT, stdin=filter_rules(names, namespace_index))


def filter_rules(names: Names, namespace_index: int) -> str:
    """Render the filter between a VM namespace's bridge and the host, in nft's language.

    Towards the host pass: ARP for the host's own address here and its like of IPv6, connections to the mirror, the
    registry and the pulls of deliveries (from the pods' machine, also to the API and the registry of deliveries), and
    answers to the host's own addresses here. From the bridge's own namespace nothing passes: it has nothing to say to
    the host, but an interface that a guest stacks on the bridge (its netlink reaches that far) would.
    """
    host, instance = names.host_address(namespace_index), names.instance_address
    host6, instance6 = names.host_address6(namespace_index), names.instance_address6
    ports = ", ".join(map(str, names.open_ports(namespace_index)))
    ports6 = ", ".join(map(str, GUEST_PORTS))
    return f"""
table bridge vmatrix
delete table bridge vmatrix
table bridge vmatrix {{
    chain forward {{
        type filter hook forward priority 0; policy accept;
        oifname "{UPLINK}" jump to_host
    }}
    chain output {{
        type filter hook output priority 0; policy accept;
        oifname "{UPLINK}" drop
    }}
    chain to_host {{
        arp daddr ip {host} accept
        ip saddr != {names.network(namespace_index)} drop
        ip daddr {instance} tcp dport {{ {ports} }} accept
        ip daddr {{ {host}, {instance} }} {ICMP} accept
        ip daddr {host} {ANSWER} accept
        {NEIGHBOUR} accept
        ip6 saddr != {names.network6(namespace_index)} drop
        ip6 daddr {instance6} tcp dport {{ {ports6} }} accept
        ip6 daddr {{ {host6}, {instance6} }} {ICMP6} accept
        ip6 daddr {host6} {ANSWER} accept
        drop
    }}
}}
"""


def network_exists(names: Names, namespace_index: int) -> bool:
    """Tell whether a VM namespace's network is complete."""
    return names.bridge_netns(namespace_index) in existing() and link_exists(names.host_link(namespace_index))


def remove_network(names: Names, namespace_index: int) -> None:
    """Take a VM namespace's network away, whatever is left of it."""
    link, netns = names.host_link(namespace_index), names.bridge_netns(namespace_index)
    for candidate in (link, f"{link}t"):
        if link_exists(candidate):
            _delete(["link", "del", candidate])
    if netns in existing():
        _delete(["netns", "del", netns])


def _delete(words: list[str]) -> None:
    """Delete with `ip`; what another process deleted a moment before is not a failure."""
    done = proc.run(["ip", *words], timeout=TIMEOUT, check=False)
    gone = ("Cannot find device", "No such file or directory", "No such device")
    if done.returncode != 0 and not any(text in done.stderr for text in gone):
        raise proc.CommandFailed(done, why=f"ended with status {done.returncode}")


def mac(address: str) -> str:
    """Return the hardware address for an IPv4 address.

    It follows from the address, so that a machine that takes over the address of one just killed is found at once and
    not only when the neighbours' ARP caches have expired.
    """
    return ":".join(["02", "00", *(f"{byte:02x}" for byte in IPv4Address(address).packed)])


def plug(names: Names, namespace_index: int, machine_id: str, address: str) -> str:
    """Make a machine's network namespace, plug it into the bridge, give it its addresses and routes.

    Returns: the network namespace's path.
    """
    bridge, netns = names.bridge_netns(namespace_index), names.machine_netns(namespace_index, machine_id)
    port = names.bridge_port(machine_id)
    host, gateway = names.host_address(namespace_index), names.gateway(namespace_index)
    proc.run(["ip", "netns", "add", netns], timeout=TIMEOUT)
    # A fresh machine does not forward: whoever deploys Kubernetes onto it has to switch it on.
    _sysctl(netns, {"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0"})
    _batch(
        [
            f"link add {port} type veth peer name eth0 address {mac(address)} netns {netns}",
            f"link set {port} master {BRIDGE} up",
        ],
        netns=bridge,
    )
    _batch(
        [
            "link set lo up",
            f"addr add {address}/24 dev eth0",
            # nobody else has it, so that nothing has to wait for duplicates to answer
            f"addr add {ipv6_address(IPv4Address(address))}/64 dev eth0 nodad",
            "link set eth0 up",
            f"route add default via {gateway}",
            f"route add default via {names.gateway6(namespace_index)} dev eth0",
            f"route add {names.instance_address}/32 via {host}",
            f"route add {names.instance_address6}/128 via {names.host_address6(namespace_index)} dev eth0",
        ],
        netns=netns,
    )
    return str(NETNS / netns)


def unplug(names: Names, machine_id: str) -> None:
    """Remove a machine's port and network namespace, wherever they are found."""
    for index in sorted(index for index, owner in owned(names) if owner == machine_id):
        bridge = names.bridge_netns(index)
        if bridge in existing():
            _delete(["-n", bridge, "link", "del", names.bridge_port(machine_id)])
        _delete(["netns", "del", names.machine_netns(index, machine_id)])
