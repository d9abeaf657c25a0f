"""The networks of two machines joined for a while, as they are where nothing keeps pods from machines.

The embedded infrastructure keeps every namespace's machines apart from all others, the machine that runs pods included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness import proc
from harness.embedded.machines.netns import BRIDGE

SECONDS = 20.0  # against hanging: one `ip` command of this host's kernel
LINK = "joined"


@contextmanager
def joined(one: str, *others: str, virtual: Sequence[str] = ()) -> Iterator[str]:
    """Let a machine and machines of one other network reach each other for a while, by their addresses.

    Yields the network namespace of the first one.

    Args:
        virtual: addresses in the other network that machines there take on in turn.
    """
    here, there = netns_of(one), {address: netns_of(address) for address in others}
    first, second = (netns.rpartition("-")[0] for netns in (here, there[others[0]]))  # of their bridges
    _ip("-n", first, "link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", second)
    routes = [(here, address) for address in (*others, *virtual)] + [(netns, one) for netns in there.values()]
    try:
        for bridge in (first, second):
            _ip("-n", bridge, "link", "set", LINK, "master", BRIDGE, "up")
        for netns, address in routes:
            _ip("-n", netns, "route", "add", f"{address}/32", "dev", "eth0")
        yield here
    finally:
        for netns, address in routes:
            _ip("-n", netns, "route", "del", f"{address}/32", check=False)
        _ip("-n", first, "link", "del", LINK)


def netns_of(address: str) -> str:
    """Return the network namespace of the machine that has an address."""
    names = [line.split()[0] for line in _ip("netns", "list").splitlines()]
    machines = [name for name in names if name.startswith("vmx") and name.count("-") == 2]
    (found,) = [name for name in machines if address in _addresses(name)]
    return found


def _addresses(netns: str) -> list[str]:
    said = _ip("-json", "-n", netns, "address", "show", "dev", "eth0", check=False)
    return [part["local"] for one in json.loads(said or "[]") for part in one.get("addr_info", ())]


def _ip(*words: str, check: bool = True) -> str:
    return proc.run(["ip", *words], timeout=SECONDS, check=check).stdout
