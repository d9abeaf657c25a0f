"""Whether guests reach the mirror and the registry through this host's packet filters, others' included.

It is tried as a guest does it: from a network namespace of its own, over a link that is named as guests' are. What
others have in the packet filter is named when it fails, and never changed.
"""

from __future__ import annotations

import os
import sys

from harness import proc
from harness.embedded.machines.names import GUEST_PORTS, Names, ipv6_address
from harness.errors import InfraError
from harness.infra.host.addresses import bridge_of
from harness.infra.host.foreign import remedy, suspects

SECONDS = 30.0  # against hanging: a link, a route, and two connections that CONNECT ends
# The namespace ends with its shell, and the link with the namespace, even if all of this is killed.
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
exec "$@"
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


def require(index: int, *, ipv6: bool) -> None:
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
        failed = proc.run([*proc.ending_with_us(), *map(str, words)], timeout=SECONDS).stdout.splitlines()
    if failed:
        rules = proc.run(["nft", "--json", "list", "ruleset"], timeout=SECONDS, check=False).stdout
        raise InfraError(
            f"machines cannot reach the mirror of this host: {'; '.join(failed)}",
            hint=remedy(rules, names),
            detail="\n".join(suspects(rules, index)) or "no packet filter that could drop it was found",
        )
