"""The filter between a bridge and the host, as text; its effect is tested on real machines."""

from __future__ import annotations

from harness.embedded.machines import netns
from harness.embedded.machines.names import Names


def test_the_filter_ends_in_a_drop_and_lets_through_the_instance_address() -> None:
    rules = netns.filter_rules(Names(3), 9)
    lines = [line.strip() for line in rules.splitlines()]
    to_host = lines[lines.index("chain to_host {") + 1 :]
    assert to_host[:6] == [
        "arp daddr ip 10.216.9.1 accept",
        "ip saddr != 10.216.9.0/24 drop",
        "ip daddr 10.216.0.1 accept",
        "ip daddr 10.216.9.1 ip protocol icmp accept",
        "ip daddr 10.216.9.1 tcp flags & (syn | ack) != syn accept",
        "drop",
    ]


def test_the_hardware_address_follows_from_the_ip_address_and_is_local_and_unicast() -> None:
    assert netns.mac("10.213.1.2") == "02:00:0a:d5:01:02"
    assert netns.mac("10.213.1.2") != netns.mac("10.213.1.3")
