"""Packet filter of the host: the instance's table, what tables of others drop, and whether guests reach the mirror.

Of the host, guests reach the mirror, the registry, and where they pull what was delivered, alone. The machine that runs
the infra cluster's own pods is not a guest of a cell: it reaches the API and the registry of deliveries, too. The
bridges' own filters (harness/embedded/machines/netns.py) say the same where guests' packets come from. The table holds
when one of them does not: a guest is root, and its netlink reaches the namespace of its bridge, not the host's. It
judges only what comes in from, or goes out to, the instance's own links.

Tables of others are read and never changed. Whether guests get through them is tried as a guest does it: from a network
namespace of its own, over a link that is named as guests' are.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from harness import proc
from harness.embedded.machines.names import GUEST_PORTS, IPV4_PORTS, PODS_NETWORK, PODS_PORTS, Names, ipv6_address
from harness.embedded.machines.netns import ANSWER, ICMP, ICMP6, NEIGHBOUR
from harness.errors import InfraError
from harness.infra.host.network import bridge_of

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
    ports, ports6, of_pods = (", ".join(map(str, known)) for known in (IPV4_PORTS, GUEST_PORTS, PODS_PORTS))
    pods = names.host_link(PODS_NETWORK)
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
        iifname "{pods}" ip daddr {names.instance_address} tcp dport {{ {of_pods} }} accept
        ip daddr {names.instance_network} {ICMP} accept
        ip daddr {names.instance_network} {ANSWER} accept
        {NEIGHBOUR} accept
        ip6 daddr {names.instance_address6} tcp dport {{ {ports6} }} accept
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
    table = f"table {FAMILY} {table_of(index)}"
    return [line for line in _listed("tables", check=os.geteuid() == 0).splitlines() if line == table]


def remove(index: int) -> None:
    """Remove the instance's table. Nothing to do when there is none."""
    for table in found(index):
        proc.run(["nft", "delete", *table.split()], timeout=SECONDS)


def _listed(*words: str, check: bool) -> str:
    """Return what `nft` lists; nothing where it is not installed, or where it fails and that is not a failure."""
    if shutil.which("nft") is None:
        return ""
    done = proc.run(["nft", "list", *words], timeout=SECONDS, check=check)
    return done.stdout if done.returncode == 0 else ""


LEGACY = Path("/proc/net/ip_tables_names")  # the tables of iptables-legacy, which nft does not list
REMEDIES = {  # by a name that the rule set has where this program made it
    "ufw-": "ufw allow proto tcp from {network} to {address} port {ports}; "
    "ufw allow proto tcp from {network6} to {address6} port {ports}",
    "firewalld": "firewall-cmd --zone=trusted --add-source={network} --add-source={network6}",
}


def dropping_tables(ruleset: str, index: int) -> list[str]:
    """Return what may drop packets to this host: chains of others, and tables of iptables-legacy.

    Args:
        ruleset: what `nft --json list ruleset` says.
    """
    items = [item for item in json.loads(ruleset or "{}").get("nftables", []) if not _ours(item, index)]
    dropping = {(rule["family"], rule["table"]) for item in items if (rule := item.get("rule")) and _drops(rule)}
    tables = [
        f"nftables: table {chain['family']} {chain['table']}, chain {chain['name']}"
        for chain in (item["chain"] for item in items if "chain" in item)
        if chain.get("hook") in {"prerouting", "input"} and chain["family"] in {"ip", "ip6", "inet", "netdev"}
        if chain.get("policy") == "drop" or (chain["family"], chain["table"]) in dropping
    ]
    legacy = LEGACY.read_text(encoding="utf-8").split() if LEGACY.exists() else []
    return tables + [f"iptables-legacy: table {table}" for table in legacy]


def let_guests_through(ruleset: str, names: Names) -> str:
    """Return the command that lets guests through a known firewall, else what to allow."""
    ports = ",".join(map(str, IPV4_PORTS))
    own = {"network": names.instance_network, "address": names.instance_address}
    values = {**own, "network6": names.instance_network6, "address6": names.instance_address6, "ports": ports}
    known = next((command for mark, command in REMEDIES.items() if mark in ruleset), None)
    ways = "from {network} to {address} and from {network6} to {address6}"
    allow = f"let TCP {ways}, ports {{ports}}, in: nft list ruleset; iptables-legacy-save"
    return (known or allow).format(**values)


def _ours(item: dict[str, Any], index: int) -> bool:
    own = {"family": FAMILY, "table": table_of(index)}
    return any(isinstance(body, dict) and own.items() <= body.items() for body in item.values())


def _drops(rule: dict[str, Any]) -> bool:
    return any(statement.keys() & {"drop", "reject"} for statement in rule.get("expr", ()))


TRIAL_SECONDS = 30.0  # against hanging: a link, a route, and two connections that CONNECT ends
# The namespace ends with its shell, and the link with the namespace, even if all of this is killed. The kernel does
# that some time later, so the shell deletes the link itself: the next trial needs its name.
SCRIPT = """
pid=$1 link=$2 host=$3 own=$4 instance=$5 host6=$6 own6=$7 instance6=$8; shift 8
ip link set lo up
ip link add probe type veth peer name "$link" netns "$pid"
nsenter --net="/proc/$pid/ns/net" sh -ec '
    echo 0 > "/proc/sys/net/ipv4/conf/$1/forwarding"
    ip addr add "$2/24" dev "$1"
    if [ -n "$3" ]; then
        for key in forwarding accept_ra disable_ipv6; do echo 0 > "/proc/sys/net/ipv6/conf/$1/$key"; done
        ip addr add "$3/64" dev "$1" nodad
    fi
    ip link set "$1" up' sh "$link" "$host" "$host6"
ip addr add "$own/24" dev probe
ip link set probe up
ip route add "$instance/32" via "$host"
if [ -n "$host6" ]; then
    echo 0 > /proc/sys/net/ipv6/conf/probe/disable_ipv6
    ip addr add "$own6/64" dev probe nodad
    ip route add "$instance6/128" via "$host6" dev probe
fi
"$@"
ip link del probe
"""
CONNECT = """
import socket, sys
for address in sys.argv[1].split(","):
    for port in map(int, sys.argv[2:]):
        try:
            socket.create_connection((address, port), timeout=3).close()
        except OSError as error:
            print(f"{address} port {port}: {error}")
"""


def require_mirror_reachable(index: int, *, ipv6: bool) -> None:
    """Look whether a guest's connections to the mirror and the registry, which run, are accepted.

    Args:
        ipv6: whether both are served over IPv6, too.

    Raises:
        InfraError: they are not; with what may drop them.
    """
    names = Names(index)
    link, host, own = f"{bridge_of(index)}h0", names.probe_network[1], names.probe_network[2]
    instance, instance6 = names.instance_address, names.instance_address6
    of_ipv6 = (ipv6_address(host), ipv6_address(own), instance6) if ipv6 else ("", "", "")
    ours = (os.getpid(), link, host, own, instance, *of_ipv6)
    served = ",".join(map(str, (instance, instance6) if ipv6 else (instance,)))
    connect = (sys.executable, "-I", "-S", "-c", CONNECT, served, *GUEST_PORTS)
    words = ("unshare", "--net", "sh", "-ec", SCRIPT, "sh", *ours, *connect)
    with proc.failing_as_infra("no network like a guest's can be made", hint="vmatrix doctor"):
        failed = proc.run([*proc.ending_with_us(), *map(str, words)], timeout=TRIAL_SECONDS).stdout.splitlines()
    if failed:
        rules = proc.run(["nft", "--json", "list", "ruleset"], timeout=TRIAL_SECONDS, check=False).stdout
        raise InfraError(
            f"machines cannot reach the mirror of this host: {'; '.join(failed)}",
            hint=let_guests_through(rules, names),
            detail="\n".join(dropping_tables(rules, index)) or "no packet filter that could drop it was found",
        )
