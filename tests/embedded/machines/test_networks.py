"""Networks without machines in them: what root in a guest's network namespace reaches of its host, by every trick.

A guest is root without a user namespace of its own, so its netlink may change what is at the other end of its port:
the namespace of its bridge. What holds then is tested here as that root, in the namespace that nspawn would enter.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import proc
from harness.embedded.machines import Machines, Names, netns
from harness.embedded.machines.names import GUEST_PORTS, ipv6_address
from harness.errors import InfraError
from harness.infra.host import firewall
from tests.embedded.bridges import instance_address

INDEX = 12
SECONDS = 20.0
FAMILIES = {"": socket.AF_INET, "6": socket.AF_INET6}  # by what the names of their listeners end in
SERVED = {f"{name}{mark}" for mark in FAMILIES for name in ("registry", "mirror")}
EVERYTHING = SERVED | {f"{name}{mark}" for mark in FAMILIES for name in ("other", "here")}
# linux/rtnetlink.h, linux/if_link.h: RTM_NEWLINK is 16, RTM_DELLINK 17; IFLA_IFNAME 3, IFLA_LINK 5, IFLA_LINKINFO 18,
# IFLA_LINK_NETNSID 37, IFLA_TARGET_NETNSID 46. Flags: request, acknowledge, and create and exclusive for a new one.
NETLINK = """
import socket, struct, sys
def attribute(kind, body):
    return struct.pack("HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)
what, number = sys.argv[1], int(sys.argv[2])
if what == "stack":
    info = attribute(1, b"macvlan\\0") + attribute(2, attribute(1, struct.pack("I", 4)))
    kind, link, flags, body = 16, 0, 0x605, attribute(3, b"stacked\\0") + attribute(5, struct.pack("I", number))
    body += attribute(37, struct.pack("i", 0)) + attribute(18, info)
else:
    kind, link, flags, body = 17, number, 5, attribute(46, struct.pack("i", 0))
body = struct.pack("BxHiII", 0, 0, link, 0, 0) + body
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
    netlink.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    sys.exit(-struct.unpack_from("i", netlink.recv(4096), 16)[0])
"""


@dataclass(frozen=True)
class Guest:
    """Root in a guest's network namespace."""

    machines: Machines

    @property
    def names(self) -> Names:
        """Return the names of the instance."""
        return self.machines.names

    def run(self, *words: str, check: bool = True) -> proc.Completed:
        """Run a command as the guest."""
        inside = ("ip", "netns", "exec", self.names.machine_netns(1, "a1"))
        return proc.run([*inside, *words], timeout=SECONDS, check=check)

    def connects(self, address: str, port: int) -> bool:
        """Tell whether a connection is accepted. One that is refused has reached the host as well."""
        done = self.run("timeout", "1", "bash", "-c", f"</dev/tcp/{address}/{port}", check=False)
        assert done.returncode in {0, 124}, done
        return done.returncode == 0

    def ask(self, what: str, link: str) -> None:
        """Have the kernel change something in the bridge's namespace."""
        shown = proc.run(["ip", "-n", self.names.bridge_netns(1), "-json", "link", "show", link], timeout=SECONDS)
        number = json.loads(shown.stdout)[0]["ifindex"]  # a small number: a guest would guess it
        self.run(sys.executable, "-c", NETLINK, what, str(number))

    def move_to(self, link: str) -> None:
        """Send what is for the host through another link than eth0."""
        own, own6 = self.names.network(1)[66], ipv6_address(self.names.network(1)[66])
        here, here6 = self.names.host_address(1), self.names.host_address6(1)
        hardware = Path(f"/sys/class/net/{self.names.host_link(1)}/address").read_text(encoding="utf-8").strip()
        self.run("ip", "link", "set", link, "up")
        self.run("ip", "addr", "add", f"{own}/32", "dev", link)
        self.run("ip", "addr", "add", f"{own6}/128", "dev", link, "nodad")
        reached = ((here, own), (self.names.instance_address, own))
        reached6 = ((here6, own6), (self.names.instance_address6, own6))
        for address, source in (*reached, *reached6):
            self.run("ip", "route", "replace", f"{address}", "dev", link, "src", str(source))
            self.run("ip", "neigh", "replace", str(address), "lladdr", hardware, "dev", link)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    """Make a network with a guest's namespace in it, and take everything away afterwards."""
    machines = Machines(tmp_path / "state", INDEX)
    machines.sweep()
    with instance_address(machines.names):
        machines.ensure_network(1)
        netns.plug(machines.names, 1, "a1", str(machines.names.network(1)[2]))
        yield Guest(machines)
        firewall.remove(INDEX)
        machines.sweep()


@contextmanager
def listeners(guest: Guest) -> Iterator[dict[str, tuple[str, int]]]:
    """Listen at the instance's and at the host's addresses of each family; give name -> (address, port)."""
    names = guest.names
    instances, here = (names.instance_address, names.instance_address6), (names.host_address(1), names.host_address6(1))
    with ExitStack() as stack:
        there = {}
        for mark, instance, own in zip(FAMILIES, map(str, instances), map(str, here), strict=True):
            wanted = {
                "registry": (instance, 5000),
                "mirror": (instance, 8080),
                "other": (instance, 0),
                "here": (own, 0),
            }
            for name, address in wanted.items():
                server = stack.enter_context(socket.create_server(address, family=FAMILIES[mark]))
                there[name + mark] = (server.getsockname()[0], server.getsockname()[1])
        yield there


def reached(guest: Guest) -> set[str]:
    """Return the names of the listeners that the guest connects to."""
    with listeners(guest) as there:
        return {name for name, (address, port) in there.items() if guest.connects(address, port)}


def test_a_guest_reaches_the_mirror_and_the_registry_alone(guest: Guest) -> None:
    assert reached(guest) == SERVED


def test_an_interface_stacked_on_the_bridge_leads_nowhere(guest: Guest) -> None:
    guest.ask("stack", netns.BRIDGE)
    guest.move_to("stacked")
    assert reached(guest) == set()


def test_the_hosts_own_table_holds_where_the_bridge_no_longer_does(guest: Guest) -> None:
    firewall.ensure(INDEX)
    guest.ask("delete", netns.BRIDGE)  # and with it its filter's hold on the uplink
    guest.ask("stack", netns.UPLINK)
    guest.move_to("stacked")
    held = reached(guest)
    firewall.remove(INDEX)

    assert held == SERVED
    assert reached(guest) == EVERYTHING  # so it was the table that held


def test_the_table_lets_the_host_reach_its_guests(guest: Guest) -> None:
    firewall.ensure(INDEX)
    inside = ("ip", "netns", "exec", guest.names.machine_netns(1, "a1"), "python3", "-m", "http.server", "8000")
    server = proc.spawn(inside, log=guest.machines.console("a1").parents[2] / "log")
    try:
        url = f"http://{guest.names.network(1)[2]}:8000/"
        done = proc.run(
            ["curl", "--silent", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", url], timeout=SECONDS
        )
        assert "Directory listing" in done.stdout
    finally:
        server.stop(grace=1)


def test_a_filter_that_somebody_emptied_is_whole_again(guest: Guest) -> None:
    bridge = ("ip", "netns", "exec", guest.names.bridge_netns(1), "nft")
    proc.run([*bridge, "flush", "ruleset"], timeout=SECONDS)
    assert reached(guest) == EVERYTHING

    guest.machines.close_networks()

    assert reached(guest) == SERVED
    chains = proc.run([*bridge, "list", "table", "bridge", "vmatrix"], timeout=SECONDS).stdout
    guest.machines.close_networks()
    assert proc.run([*bridge, "list", "table", "bridge", "vmatrix"], timeout=SECONDS).stdout == chains


def test_a_firewall_of_others_that_drops_what_guests_send_is_named_and_left_alone(guest: Guest) -> None:
    firewall.ensure(INDEX)
    hook = "type filter hook input priority 5"
    theirs = f'table inet others-{INDEX} {{ chain in {{ {hook}; iifname "vmx{INDEX}h*" drop; }}; }}'
    with listeners(guest):
        firewall.require_mirror_reachable(INDEX, ipv6=True)
        firewall.require_mirror_reachable(INDEX, ipv6=False)
        proc.run(["nft", theirs], timeout=SECONDS)
        try:
            before = proc.run(["nft", "list", "table", "inet", f"others-{INDEX}"], timeout=SECONDS).stdout
            with pytest.raises(InfraError, match="machines cannot reach the mirror") as no:
                firewall.require_mirror_reachable(INDEX, ipv6=True)
            firewall.ensure(INDEX)
            firewall.remove(INDEX)
            assert proc.run(["nft", "list", "table", "inet", f"others-{INDEX}"], timeout=SECONDS).stdout == before
        finally:
            proc.run(["nft", "delete", "table", "inet", f"others-{INDEX}"], timeout=SECONDS)
    # the family's own neighbour discovery is dropped as well, so that the kernel may say so first
    assert [no.value.summary.count(f" port {port}: ") for port in GUEST_PORTS] == [len(FAMILIES)] * len(GUEST_PORTS)
    assert f"nftables: table inet others-{INDEX}, chain in" in no.value.detail.splitlines()
    assert not Path(f"/sys/class/net/vmx{INDEX}h0").exists()
