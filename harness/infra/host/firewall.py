"""The instance's table in this host's packet filter: of the host, guests reach the mirror and the registry alone.

The machine that runs the infra cluster's own pods is no guest of a cell: it reaches the API, too.

The bridges' own filters (harness/embedded/machines/netns.py) say the same where guests' packets come from. This table
holds when one of them does not: a guest is root, and its netlink reaches the namespace of its bridge, not the host's.
It judges only what comes in from, or goes out to, the instance's own links; other tables are neither read nor changed.
"""

from __future__ import annotations

import os
import shutil

from harness import proc
from harness.embedded.machines.names import API_PORT, GUEST_PORTS, PODS_NETWORK, Names
from harness.embedded.machines.netns import ANSWER, ICMP, ICMP6, NEIGHBOUR
from harness.infra.host.addresses import bridge_of

SECONDS = 20.0  # against hanging: one `nft` command of this host's kernel
FAMILY = "inet"  # IPv4 and IPv6


def table_of(index: int) -> str:
    """Return the name of an instance's table."""
    return bridge_of(index)


def rules(index: int) -> str:
    """Render an instance's table in nft's language, in the place of what it has, as one transaction.

    Answers are told by their flags, not by connection tracking: that would have the kernel track everything that this
    host sends and receives, in a table that can be full.
    """
    names, table, links = Names(index), f"{FAMILY} {table_of(index)}", f'"{bridge_of(index)}h*"'
    ports = ", ".join(map(str, GUEST_PORTS))
    return f"""
table {table}
delete table {table}
table {table} {{
    chain input {{
        type filter hook input priority 0; policy accept;
        iifname {links} jump from_guests
    }}
    chain from_guests {{
        ip daddr {names.instance_address} tcp dport {{ {ports} }} accept
        iifname "{names.host_link(PODS_NETWORK)}" ip daddr {names.instance_address} tcp dport {API_PORT} accept
        ip daddr {names.instance_network} {ICMP} accept
        ip daddr {names.instance_network} {ANSWER} accept
        {NEIGHBOUR} accept
        ip6 daddr {names.instance_address6} tcp dport {{ {ports} }} accept
        ip6 daddr {names.instance_network6} {ICMP6} accept
        ip6 daddr {names.instance_network6} {ANSWER} accept
        drop
    }}
    chain forward {{
        type filter hook forward priority 0; policy accept;
        iifname {links} drop
        oifname {links} drop
    }}
}}
"""


def ensure(index: int) -> None:
    """Make the instance's table, or make it whole again.

    Raises:
        InfraError: the kernel refuses it.
    """
    with proc.failing_as_infra("guests cannot be kept from this host", hint="modprobe nf_tables nft_reject_inet"):
        proc.run(["nft", "-f", "-"], timeout=SECONDS, stdin=rules(index))


def holds(index: int) -> bool:
    """Tell whether the instance's table is there and judges what comes in and what would pass through."""
    text = _listed("table", FAMILY, table_of(index), check=False)
    return "jump from_guests" in text and text.count("drop") == rules(index).count("drop")


def found(index: int) -> list[str]:
    """Return the instance's tables in this host's packet filter, which only root sees.

    Raises:
        CommandFailed: the kernel does not tell, so nobody knows.
    """
    wanted = f"table {FAMILY} {table_of(index)}"
    return [line for line in _listed("tables", check=os.geteuid() == 0).splitlines() if line == wanted]


def remove(index: int) -> None:
    """Remove the instance's table. Nothing to do when there is none."""
    for table in found(index):
        proc.run(["nft", "delete", *table.split()], timeout=SECONDS)


def _listed(*words: str, check: bool) -> str:
    """Return what `nft` lists; nothing where it is not installed, or where it fails and that is no failure."""
    if shutil.which("nft") is None:
        return ""
    done = proc.run(["nft", "list", *words], timeout=SECONDS, check=check)
    return done.stdout if done.returncode == 0 else ""
