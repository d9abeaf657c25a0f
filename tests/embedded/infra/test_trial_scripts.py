"""The scripts of the doctor's two pods, between network namespaces of this host that are linked as with ptp."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import proc
from harness.infra.cluster import trial
from harness.infra.cluster.trial import Report, read_report
from harness.until import Deadline, NotYet, until

ROUTER, PEER, LOOKER = (f"trial-{os.getpid()}-{name}" for name in ("r", "p", "l"))
PREFIX = "10.244.9"  # nobody's: these namespaces have no way out
GATEWAY, PEER_ADDRESS = f"{PREFIX}.1", f"{PREFIX}.2"
SECONDS = 60.0
LINKS = f"""
set -e
for name in {ROUTER} {PEER} {LOOKER}; do ip netns add $name; ip -n $name link set lo up; done
ip netns exec {ROUTER} sysctl -qw net.ipv4.ip_forward=1
number=2
for name in {PEER} {LOOKER}; do
  ip link add link$number netns {ROUTER} type veth peer name eth0 netns $name
  ip -n {ROUTER} address add {GATEWAY}/32 dev link$number
  ip -n {ROUTER} link set link$number up
  ip -n {ROUTER} route add {PREFIX}.$number dev link$number
  ip -n $name address add {PREFIX}.$number/24 dev eth0 noprefixroute
  ip -n $name link set eth0 up
  ip -n $name route add {GATEWAY} dev eth0 scope link
  ip -n $name route add default via {GATEWAY}
  number=$((number + 1))
done
"""
CLOSE = f"""
table ip trial {{
  chain forward {{
    type filter hook forward priority 0
    tcp dport {trial.CLOSED} drop
  }}
}}
"""
Look = Callable[..., Report]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[None]:
    """Have two linked namespaces, in one of which both ports are open."""
    with ExitStack() as stack:
        for name in (ROUTER, PEER, LOOKER):
            stack.callback(proc.run, ["ip", "netns", "delete", name], timeout=SECONDS, check=False)
        proc.run(["sh", "-c", LINKS], timeout=SECONDS)
        for port in (trial.OPEN, trial.CLOSED):
            argv = ["ip", "netns", "exec", PEER, sys.executable, "-m", "http.server", str(port), "-d", str(tmp_path)]
            server = proc.spawn(argv, log=Path(os.devnull))
            stack.callback(server.stop, grace=1.0)
        until(_listening, deadline=Deadline.after(SECONDS), what="both ports to be open")
        yield


def _listening() -> bool | NotYet:
    sockets = proc.run(["ip", "netns", "exec", PEER, "ss", "-Hltn"], timeout=SECONDS).stdout
    return all(f":{port} " in sockets for port in (trial.OPEN, trial.CLOSED)) or NotYet(sockets)


def in_router(*words: str) -> None:
    proc.run(["ip", "netns", "exec", ROUTER, *words], timeout=SECONDS)


@pytest.fixture
def look(pods: None, tmp_path: Path) -> Look:
    """Return what runs the looking pod's script with bash, as in KubeVirt's images."""
    said = tmp_path / "said"
    script = trial.LOOK.replace("/dev/termination-log", str(said))
    given = {"PEER": PEER_ADDRESS, "OPEN": str(trial.OPEN), "CLOSED": str(trial.CLOSED)}

    def run(*before: str) -> Report:
        said.write_text("")
        proc.run(["ip", "netns", "exec", LOOKER, *before, "bash", "-c", script], timeout=SECONDS, env=given)
        return read_report(said.read_text())

    return run


def test_a_network_of_links_keeps_bridged_machines_apart(look: Look) -> None:
    assert look() == Report(bridged=False, enforced=False)


def test_a_router_that_answers_for_pods_and_closes_a_port_is_seen(look: Look) -> None:
    in_router("sysctl", "-qw", "net.ipv4.conf.all.proxy_arp=1")
    in_router("nft", CLOSE)
    assert look() == Report(bridged=True, enforced=True)


def test_without_capabilities_only_the_ports_are_judged(look: Look) -> None:
    seen = look("setpriv", "--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw")
    assert (seen.bridged, seen.enforced) == (None, False)


def test_a_gateway_that_was_learned_does_for_addresses_without_a_prefix(look: Look) -> None:
    proc.run(["ip", "-n", LOOKER, "address", "flush", "dev", "eth0"], timeout=SECONDS)
    for words in (
        ("address", "add", f"{PREFIX}.3/32", "dev", "eth0"),
        ("route", "add", GATEWAY, "dev", "eth0", "scope", "link"),
        ("route", "add", "default", "via", GATEWAY),
    ):
        proc.run(["ip", "-n", LOOKER, *words], timeout=SECONDS)
    assert look().bridged is True

    proc.run(["ip", "-n", LOOKER, "neigh", "flush", "all"], timeout=SECONDS)
    mac = proc.run(
        ["ip", "netns", "exec", ROUTER, "cat", "/sys/class/net/link3/address"], timeout=SECONDS
    ).stdout.strip()
    static = ("neigh", "replace", GATEWAY, "lladdr", mac, "dev", "eth0", "nud", "permanent")
    proc.run(["ip", "-n", LOOKER, *static], timeout=SECONDS)
    assert look().bridged is False, "nobody tells a machine what was written into its pod"
