"""What a machine does with packets, as machine/packets.py prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Endpoint = tuple[str, int]  # an address and a port behind a Service


@dataclass(frozen=True)
class MachinePackets:
    """One machine.

    iptables: rules of the kernel's own chains, with their table.  nftables: hooked chains by table (FAMILY NAME).
    destinations: what kube-proxy's rules lead to; None where none runs.  queues: the queue of every interface.
    timeouts: for how many seconds connections are known, by the kernel's name.
    """

    iptables: tuple[tuple[str, str], ...]
    nftables: Mapping[str, tuple[str, ...]]
    destinations: frozenset[Endpoint] | None
    queues: Mapping[str, str]
    timeouts: Mapping[str, str]


def packets_of(raw: Mapping[str, Any]) -> MachinePackets:
    """Read what machine/packets.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    led = raw["destinations"]
    return MachinePackets(
        iptables=tuple((table, rule) for table, rule in raw["iptables"]),
        nftables={table: tuple(chains) for table, *chains in raw["nftables"]},
        destinations=None if led is None else frozenset((address, int(port)) for address, port in led),
        queues=raw["queues"],
        timeouts=raw["timeouts"],
    )
