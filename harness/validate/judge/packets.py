"""What a guest's machines do with packets: nothing stands in their way, and Services lead to their endpoints alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.kube import Cluster
from harness.kube.resources import ENDPOINT_SLICE, SERVICE
from harness.spec.models.leaves import FirewallLeaves
from harness.validate.expected import LEFT_OUT, ExpectedGuest
from harness.validate.facts.cluster import Json
from harness.validate.facts.packets import Endpoint, MachinePackets
from harness.validate.findings import Mismatch, on_every, unjudged

Packets = Mapping[str, MachinePackets]
# Tables that iptables keeps in nftables, with the hooked chains that it has there.
OF_IPTABLES = ("filter", "nat", "mangle", "raw", "security")
BUILT_IN = {"INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"}
TARGET = re.compile(r" -[jg] (\S+)")
HARMFUL = ("netem", "tbf")  # queues that delay, lose or limit packets
NAME = "kubernetes.io/service-name"  # label of an EndpointSlice


def obstacles(packets: Packets, expected: ExpectedGuest) -> list[Mismatch]:
    """Return rules of firewalls and queues of interfaces that the product does not have."""
    said = expected.leaves.firewall
    if said is None:
        why = "product.yml does not say which rules there may be (firewall)"
        return [unjudged("rules for packets that nobody asked for", why, whole=True)]

    def judge(name: str, seen: MachinePackets) -> Iterator[Mismatch]:
        if not seen.queues:
            yield Mismatch(name, "a list of its interfaces", "none")
        yield from _strange_rules(name, seen, said)
        for link, queue in seen.queues.items():
            if queue in HARMFUL:
                yield Mismatch(f"{name} {link}", "a queue that only passes packets on", queue)

    return on_every(expected.machines, packets, judge)


def _strange_rules(name: str, seen: MachinePackets, said: FirewallLeaves) -> Iterator[Mismatch]:
    for table, rule in seen.iptables:
        if rule.endswith(tuple(f" -m mark --mark {mark} -j ACCEPT" for mark in said.marks)):
            continue
        target = TARGET.search(rule)
        if target is None or not target.group(1).startswith(said.chains):
            chains = ", ".join(f"{start}*" for start in said.chains)
            yield Mismatch(f"{name} iptables {table}", f"only jumps to {chains}", rule)
    for table, hooked in seen.nftables.items():
        own = table.partition(" ")[2]
        strange = sorted(set(hooked) - BUILT_IN) if own in OF_IPTABLES else []
        if own not in (*OF_IPTABLES, *said.tables):
            yield Mismatch(f"{name} nftables", f"no other tables than {', '.join(said.tables)}", f"table {table}")
        elif strange:
            yield Mismatch(f"{name} nftables table {table}", "iptables' own chains", ", ".join(strange))


def endpoints_of(api: Cluster) -> tuple[set[Endpoint], set[Endpoint]]:
    """Return the endpoints that every node's rules must lead to, and those that they may lead to."""
    must, may = set[Endpoint](), set[Endpoint]()
    services = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in api.list(SERVICE).items}
    for piece in api.list(ENDPOINT_SLICE).items:
        name = (piece["metadata"].get("labels") or {}).get(NAME, "")
        service = services.get((piece["metadata"]["namespace"], name))
        if service is None or piece.get("addressType", "IPv4") not in ("IPv4", "IPv6"):
            continue
        numbers = [int(port["port"]) for port in piece.get("ports") or () if port.get("port")]
        for endpoint in piece.get("endpoints") or ():
            here = {(address, number) for address in endpoint["addresses"] for number in numbers}
            may |= here
            ready = (endpoint.get("conditions") or {}).get("ready") is not False
            must |= here if ready and _everywhere(service, endpoint) else set()
    return must, may


def _everywhere(service: Json, endpoint: Json) -> bool:
    """Tell whether every node leads to every endpoint of a Service: it has an address, and nothing chooses by place."""
    spec = service["spec"]
    placed = spec.get("internalTrafficPolicy") == "Local" or spec.get("trafficDistribution") or endpoint.get("hints")
    return spec.get("clusterIP", "None") not in ("None", "") and not placed


def strayed_rules(must: set[Endpoint], may: set[Endpoint], packets: Packets, expected: ExpectedGuest) -> list[Mismatch]:
    """Return endpoints of Services that a node's rules do not lead to, and what they lead to that is none."""
    if expected.kube_proxy_mode == LEFT_OUT:  # another check sees that none runs
        return []
    if expected.kube_proxy_mode not in ("nftables", "iptables"):
        return [
            unjudged("where kube-proxy's rules lead", f"in mode {expected.kube_proxy_mode!r} they are not looked at")
        ]

    def judge(name: str, seen: MachinePackets) -> Iterator[Mismatch]:
        for address, port in sorted(must - (seen.destinations or frozenset())):
            yield Mismatch(f"{name} kube-proxy", f"a rule that leads to the endpoint {address}:{port}", "none")
        for address, port in sorted((seen.destinations or frozenset()) - may):
            yield Mismatch(f"{name} kube-proxy", "rules that lead to endpoints of Services only", f"{address}:{port}")

    found = [] if must else [Mismatch("the API", "endpoints of Services", "none")]
    return found + on_every(expected.nodes, packets, judge)
