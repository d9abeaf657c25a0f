"""Networks of machines over IPv6: machines of a network reach each other at once, and nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from harness import proc
from harness.embedded.machines import Machines, Names, netns
from harness.embedded.machines.names import ipv6_address
from tests.embedded.bridges import instance_address

INDEX = 13
SECONDS = 20.0
# Ends with 0 where a connection is accepted or refused, with 1 where there is no answer in 2 s, or no way.
KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), timeout=2).close()
except ConnectionRefusedError:
    pass
except OSError:
    sys.exit(1)
"""
GUESTS = {"a1": (1, 2), "a2": (1, 3), "b1": (2, 2)}  # machine -> its network, its host number


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Make two networks with guests' namespaces in them, and take everything away afterwards."""
    made = Machines(tmp_path / "state", INDEX)
    made.sweep()
    with instance_address(made.names):
        for name, (network, number) in GUESTS.items():
            made.ensure_network(network)
            netns.plug(made.names, network, name, str(made.names.network(network)[number]))
        yield made
        made.sweep()


def own(names: Names, name: str) -> str:
    """Return a guest's IPv6 address."""
    network, number = GUESTS[name]
    return str(ipv6_address(IPv4Address(names.network(network)[number])))


def run(machines: Machines, name: str, *words: str) -> proc.Completed:
    """Run a command as a guest."""
    inside = ("ip", "netns", "exec", machines.names.machine_netns(GUESTS[name][0], name))
    return proc.run([*inside, *words], timeout=SECONDS, check=False)


def answers(machines: Machines, name: str, address: str) -> bool:
    """Tell whether anybody answers a guest at an address, be it that nothing listens there."""
    done = run(machines, name, sys.executable, "-c", KNOCK, address)
    assert done.returncode in {0, 1}, done
    return done.returncode == 0


def test_machines_of_a_network_reach_each_other_and_those_of_others_do_not(machines: Machines) -> None:
    names = machines.names
    assert answers(machines, "a1", own(names, "a2"))
    assert answers(machines, "a1", str(names.gateway6(1)))
    assert not answers(machines, "a1", own(names, "b1"))  # its gateway forwards nothing
    assert not answers(machines, "a1", str(names.gateway6(2)))


def test_a_guest_does_not_reach_what_the_kernel_names_the_host(machines: Machines) -> None:
    hardware = Path(f"/sys/class/net/{machines.names.host_link(1)}/address").read_text(encoding="utf-8").strip()
    byte = [int(part, 16) for part in hardware.split(":")]  # its link-local address (RFC 4291, appendix A)
    form = f"fe80::{byte[0] ^ 2:x}{byte[1]:02x}:{byte[2]:x}ff:fe{byte[3]:02x}:{byte[4]:x}{byte[5]:02x}"
    shown = proc.run(["ip", "-6", "-json", "address", "show", "dev", machines.names.host_link(1)], timeout=SECONDS)
    assert IPv6Address(form) in {
        IPv6Address(one["local"]) for link in json.loads(shown.stdout) for one in link["addr_info"]
    }
    assert not answers(machines, "a1", f"{form}%eth0")


def test_a_fresh_machine_forwards_nothing(machines: Machines) -> None:
    assert run(machines, "a1", "sysctl", "-n", "net.ipv6.conf.all.forwarding").stdout.strip() == "0"


def test_a_machine_has_the_same_number_in_both_families() -> None:
    names = Names(INDEX)
    assert str(ipv6_address(names.network(7)[9])) == "fd76:6d78:e2:7::9"
    assert str(names.gateway6(7)) == "fd76:6d78:e2:7::fe"
    assert ipv6_address(names.network(7)[9]) != ipv6_address(Names(INDEX - 1).network(7)[9])
