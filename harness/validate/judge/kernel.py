"""Part of node_configuration.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, differs, of_each, on_every, unjudged

Facts = Mapping[str, NodeFacts]


# What kubelet and the pod network need of the kernel (kubernetes.io, "Container runtimes": network configuration).
BRIDGED = "net.bridge."  # settings that are there only where a bridge is used


SYSCTLS = {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}


OF_IPV6 = {"net.ipv6.conf.all.forwarding": "1", "net.bridge.bridge-nf-call-ip6tables": "1"}  # of a cluster that has it


def kernel_settings(expected: ExpectedGuest) -> dict[str, str]:
    """Return what kubelet and the pod networks need of the kernel."""
    return {**SYSCTLS, **(OF_IPV6 if expected.ipv6 else {})}


@of_each("nodes")
def wrong_kernel_settings(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return kernel settings that are not as needed, and swap that is on."""
    for setting, value in kernel_settings(expected).items():
        if expected.plugin is None and setting.startswith(BRIDGED) and not seen.sysctls.get(setting):
            yield unjudged(setting, f"nobody describes the network plugin {expected.network_plugin!r}")
            continue
        yield from differs(name, setting, value, seen.sysctls.get(setting, ""))
    yield from differs(name, "swap", (), seen.swaps)


def confused_identities(facts: Facts, expected: ExpectedGuest, clock_margin: float) -> list[Mismatch]:
    """Return machines with another's hostname, a shared machine-id (a clone that was not reset) or a wrong clock.

    Args:
        clock_margin: seconds that a clock may differ from the harness's, beyond what a late answer explains.
    """
    ids = Counter(seen.machine_id for seen in facts.values())

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        yield from differs(name, "hostname", name, seen.hostname)
        if not seen.machine_id or ids[seen.machine_id] > 1:
            yield Mismatch(name, "a unique machine-id", repr(seen.machine_id))
        clock = f"a clock within {clock_margin:.0f} s of this host's"
        if seen.clock.least > clock_margin:
            yield Mismatch(name, clock, f"at least {seen.clock.least:.0f} s ahead")
        if seen.clock.most < -clock_margin:
            yield Mismatch(name, clock, f"at least {-seen.clock.most:.0f} s behind")

    return on_every(expected.machines, facts, judge)
