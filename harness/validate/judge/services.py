"""Whether the Services of the cluster itself lead to pods that exist, and the DNS Service is as kubeadm makes it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube import Cluster
from harness.kube.resources import ENDPOINT_SLICE, POD, SERVICE
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import DEFAULT, Json, addresses_of, dns_service
from harness.validate.findings import Mismatch, differs, unjudged

NAME = "kubernetes.io/service-name"  # label of an EndpointSlice
API = "kubernetes"  # the API server's own Service, in `default`
# What Service/kube-dns has by kubeadm (`kubeadm init phase addon coredns --print-manifest`), and what it must not have.
PORTS = {("UDP", 53), ("TCP", 53), ("TCP", 9153)}
DEFAULTS = {"type": "ClusterIP", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}
FOREIGN = ("externalIPs", "externalName", "loadBalancerIP")


def wrong_services(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return endpoints of the system's Services that are no pod or machine, and what is strange of the DNS Service."""
    spaces = expected.namespaces or frozenset()  # where nobody says, others' Services may lead anywhere
    dns = dns_service(api, expected)
    own = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in api.list(SERVICE).items}
    own = {(space, name) for space, name in own if space in spaces or (space, name) == (DEFAULT, API)}
    if dns is not None:
        own.add((dns["metadata"]["namespace"], dns["metadata"]["name"]))
    return [*_dead_endpoints(api, own, expected), *_strange_dns(dns, expected)]


def _dead_endpoints(api: Cluster, own: set[tuple[str, str]], expected: ExpectedGuest) -> Iterator[Mismatch]:
    pods = {(one["metadata"]["namespace"], address) for one in api.list(POD).items for address in addresses_of(one)}
    machines = {*expected.addresses.values(), *expected.ipv6_addresses.values()}
    for piece in api.list(ENDPOINT_SLICE).items:
        space = piece["metadata"]["namespace"]
        name = (piece["metadata"].get("labels") or {}).get(NAME, "")
        if (space, name) not in own:
            continue
        for address in (one for endpoint in piece.get("endpoints") or () for one in endpoint["addresses"]):
            if address not in machines and (space, address) not in pods:
                where = f"Service {space}/{name} (EndpointSlice {piece['metadata']['name']})"
                yield Mismatch(where, "endpoints that are pods of its namespace or machines", address)


def _strange_dns(dns: Json | None, expected: ExpectedGuest) -> Iterator[Mismatch]:
    if dns is None:
        yield Mismatch("the cluster", "a Service of the DNS server", "none")
        return
    spec, where = dns["spec"], f"Service {dns['metadata']['namespace']}/{dns['metadata']['name']}"
    if expected.leaves.kubeadm is None:
        yield unjudged("what the DNS Service is like", "product.yml does not say that kubeadm made it (kubeadm)")
        return
    for key in FOREIGN:
        if spec.get(key):
            yield Mismatch(where, f"no {key}", str(spec[key]))
    for key, value in DEFAULTS.items():
        yield from differs(where, key, value, spec.get(key, value))
    ports = {(one.get("protocol", "TCP"), one["port"]) for one in spec.get("ports", ())}
    yield from differs(where, "ports", sorted(PORTS), sorted(ports))
