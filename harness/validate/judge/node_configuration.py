"""How every machine of a guest must be configured: flags, kernel, certificates, identity, kube-proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.expected import LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, differs, lasting, on_every, unjudged
from harness.validate.layout import NFTABLES_TABLES, running_proxies

Facts = Mapping[str, NodeFacts]

OK = 200


def wrong_proxy_mode(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running kube-proxy is in another mode than expected, or has written no rules of that mode."""
    if expected.kube_proxy_mode == LEFT_OUT:
        return running_proxies(facts, expected)
    if expected.kube_proxy_mode not in PROXY_MODES:
        why = f"{expected.kube_proxy_mode!r} is none of {', '.join(PROXY_MODES)}"
        return [unjudged("kube-proxy's mode", why, whole=True)]

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        answer = seen.endpoints["kube-proxy mode"]
        wrong = differs(f"{name} kube-proxy", "mode", expected.kube_proxy_mode, answer.body)
        yield from lasting(wrong) if answer.status == OK else wrong
        for table in (NFTABLES_TABLES[one.version] for one in expected.families):
            if expected.kube_proxy_mode == "nftables" and table not in seen.nft_tables:
                yield Mismatch(name, f"nftables' {table!r}", repr(seen.nft_tables))

    return on_every(expected.nodes, facts, judge)
