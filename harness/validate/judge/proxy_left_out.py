"""Part of node_configuration.py."""

from __future__ import annotations

from collections.abc import Iterator

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.mismatch import Mismatch, of_each

NFTABLES_TABLES = {4: "table ip kube-proxy", 6: "table ip6 kube-proxy"}  # by IP version


@of_each("nodes")
def running_proxies(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return the nodes that run kube-proxy, or have its rules, although the cell leaves it out."""
    if seen.running("kube-proxy"):
        yield Mismatch(name, "no kube-proxy: the cell leaves it out", "it runs")
    for table in {*NFTABLES_TABLES.values()} & set(seen.nft_tables):
        yield Mismatch(name, f"no {table!r}: the cell leaves out kube-proxy", "it exists")
