"""Layout: which programs run as static pods or units, as the product says, or as machines and API show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from harness.validate.expected import CONTROL_PLANE_PROGRAMS, RUNTIMES, ExpectedGuest
from harness.validate.facts.cluster import ClusterView, by_name
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, of_each

Facts = Mapping[str, NodeFacts]
STATIC = (*CONTROL_PLANE_PROGRAMS, "etcd")  # what may be a static pod on a control plane


def absent(facts: Facts, program: str) -> bool:
    """Tell whether no machine runs a program under its own name; false when no machine was looked at."""
    return bool(facts) and not any(node.running(program) for node in facts.values())


def static_by_facts(facts: Facts, expected: ExpectedGuest) -> dict[str, bool | None]:
    """Tell of each program whether control planes run it as a static pod; None where they do not run it."""
    static: dict[str, bool | None] = {}
    for program in STATIC:
        running = [p for name in expected.control_plane if name in facts for p in facts[name].running(program)]
        observed = any(process.in_pod for process in running) if running else None
        declared = expected.static(program)
        static[program] = observed if declared is None else declared
    return static


def static_by_view(view: ClusterView, expected: ExpectedGuest) -> dict[str, bool | None]:
    """Tell of each program whether control planes run it as a static pod; None where the API shows no such pod."""
    pods = set(by_name(view.system_pods))
    static: dict[str, bool | None] = {}
    for program in STATIC:
        observed = True if any(f"{program}-{name}" in pods for name in expected.control_plane) else None
        declared = expected.static(program)
        static[program] = observed if declared is None else declared
    return static


def runtime_of(facts: Facts, expected: ExpectedGuest) -> str:
    """Return the name of the container runtime's process: of the cell's, or of the one that runs; "" for neither."""
    if expected.runtime:
        return expected.runtime_process
    return next((process for process in RUNTIMES.values() if facts and not absent(facts, process)), "")


def etcd_is_used(facts: Facts, expected: ExpectedGuest) -> bool:
    """Tell whether a running API server uses an etcd on the inventory's machines, its own or another."""
    here = {*expected.addresses.values(), "127.0.0.1", "localhost", "::1"}
    servers = [p.flag("etcd-servers") or "" for node in facts.values() for p in node.running("kube-apiserver")]
    return any(urlsplit(url).hostname in here for text in servers for url in text.split(","))


NFTABLES_TABLES = {4: "table ip kube-proxy", 6: "table ip6 kube-proxy"}  # by IP version


@of_each("nodes")
def running_proxies(name: str, node: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return the nodes that run kube-proxy, or have its rules, although the cell leaves it out."""
    if node.running("kube-proxy"):
        yield Mismatch(name, "no kube-proxy: the cell leaves it out", "it runs")
    for table in {*NFTABLES_TABLES.values()} & set(node.nft_tables):
        yield Mismatch(name, f"no {table!r}: the cell leaves out kube-proxy", "it exists")
