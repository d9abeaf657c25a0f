"""The filter between a bridge and the host, as text; its effect is tested on real machines."""

from __future__ import annotations

from harness.embedded.machines import netns
from harness.embedded.machines.names import Names


def chain(rules: str, name: str) -> list[str]:
    """Return the rules of a chain."""
    lines = [line.strip() for line in rules.splitlines()]
    start = lines.index(f"chain {name} {{") + 1
    return lines[start : lines.index("}", start)]


def test_the_filter_ends_in_a_drop_and_lets_through_the_mirror_and_the_registry() -> None:
    icmp = "icmp type { echo-request, echo-reply, destination-unreachable, time-exceeded, parameter-problem }"
    assert chain(netns.filter_rules(Names(3), 9), "to_host") == [
        "arp daddr ip 10.216.9.1 accept",
        "ip saddr != 10.216.9.0/24 drop",
        "ip daddr 10.216.0.1 tcp dport { 5000, 8080, 5002 } accept",
        f"ip daddr {{ 10.216.9.1, 10.216.0.1 }} {icmp} accept",
        "ip daddr 10.216.9.1 tcp flags & (syn | ack) != syn accept",
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept",
        "ip6 saddr != fd76:6d78:d8:9::/64 drop",
        "ip6 daddr fd76:6d78:d8::1 tcp dport { 5000, 8080 } accept",
        f"ip6 daddr {{ fd76:6d78:d8:9::1, fd76:6d78:d8::1 }} {netns.ICMP6} accept",
        "ip6 daddr fd76:6d78:d8:9::1 tcp flags & (syn | ack) != syn accept",
        "drop",
    ]


def test_the_filter_judges_what_passes_the_bridge_and_what_is_stacked_on_it() -> None:
    rules = netns.filter_rules(Names(3), 9)
    assert chain(rules, "forward")[1:] == ['oifname "up0" jump to_host']
    assert chain(rules, "output")[1:] == ['oifname "up0" drop']


def test_the_filter_replaces_what_is_there() -> None:
    lines = netns.filter_rules(Names(3), 9).strip().splitlines()
    assert lines[:3] == ["table bridge vmatrix", "delete table bridge vmatrix", "table bridge vmatrix {"]


def test_the_hardware_address_follows_from_the_ip_address_and_is_local_and_unicast() -> None:
    assert netns.mac("10.213.1.2") == "02:00:0a:d5:01:02"
    assert netns.mac("10.213.1.2") != netns.mac("10.213.1.3")
