"""DNS: CoreDNS' Corefile, its Service and the cluster's other ones, and names outside that are passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.kube import Cluster
from harness.kube.resources import ENDPOINT_SLICE, POD, SERVICE
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import DEFAULT, Json, addresses_of, dns_service
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs, unjudged
from harness.validate.manifests import installed, key_of
from harness.validate.probes import NO_DIALS, Ask

FILE = "Corefile"
CACHE_SECONDS = 30  # in the lines that kubeadm writes, see below
# What kubeadm writes for Kubernetes 1.34 to 1.37 (`kubeadm init phase addon coredns --print-manifest`), line by line.
LINES = (
    ".:53 {",
    "errors",
    "health {",
    "lameduck 5s",
    "}",
    "ready",
    "kubernetes {domain} in-addr.arpa ip6.arpa {",
    "pods insecure",
    "fallthrough in-addr.arpa ip6.arpa",
    "ttl 30",
    "}",
    "prometheus :9153",
    "forward . /etc/resolv.conf {",
    "max_concurrent 1000",
    "}",
    "cache {cache} {",
    "disable success {domain}",
    "disable denial {domain}",
    "}",
    "loop",
    "reload",
    "loadbalance",
    "}",
)


def wrong_corefile(data: Mapping[str, str], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the lines of CoreDNS's configuration that are not kubeadm's, and those that are missing.

    Args:
        data: of the ConfigMap kube-system/coredns.
    """
    if expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the cluster (kubeadm)"
        return [unjudged("CoreDNS's configuration", why, whole=True)]
    if FILE not in data:
        return [Mismatch("ConfigMap kube-system/coredns", f"the key {FILE}", ", ".join(data) or "no keys")]
    cache = str(expected.variables.get("cluster_coredns_cache_seconds", CACHE_SECONDS))
    words = {"{domain}": expected.dns_domain, "{cache}": cache}
    expected_lines = [_filled(line, words) for line in LINES]
    there = [" ".join(line.partition("#")[0].split()) for line in data[FILE].splitlines()]
    there = [line for line in there if line]
    missing = [line for line in expected_lines if line not in there]
    strange = [line for line in there if line not in expected_lines]
    if not missing and not strange:
        same = there == expected_lines
        return [] if same else [Mismatch(FILE, "kubeadm's order of lines", "another one, or a line twice")]
    return [
        *(Mismatch(FILE, f"the line `{line}`", "no such line") for line in missing),
        *(Mismatch(FILE, "no other line than kubeadm's", f"`{line}`") for line in strange),
    ]


def _filled(line: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        line = line.replace(word, value)
    return line


NAME = "kubernetes.io/service-name"  # label of an EndpointSlice
API = "kubernetes"  # the API server's own Service, in `default`
# What Service/kube-dns has by kubeadm (`kubeadm init phase addon coredns --print-manifest`), and what it must not have:
# for products that name kubeadm and no `manifests`.
PORTS = {("UDP", 53), ("TCP", 53), ("TCP", 9153)}
DEFAULTS = {"type": "ClusterIP", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}
FOREIGN = ("externalIPs", "externalName", "loadBalancerIP")


def wrong_services(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return endpoints of the system's Services that are no pod or machine, and a DNS Service unlike kubeadm's.

    Where the product names the Service's manifest, that is left to `manifests.strange_objects`.
    """
    spaces = expected.namespaces or frozenset()  # where nobody says, others' Services may lead anywhere
    dns = dns_service(api, expected)
    own = {(service["metadata"]["namespace"], service["metadata"]["name"]) for service in api.list(SERVICE).items}
    own = {(space, name) for space, name in own if space in spaces or (space, name) == (DEFAULT, API)}
    if dns is not None:
        own.add((dns["metadata"]["namespace"], dns["metadata"]["name"]))
    return [*_dead_endpoints(api, own, expected), *_strange_dns(dns, expected)]


def _dead_endpoints(api: Cluster, own: set[tuple[str, str]], expected: ExpectedGuest) -> Iterator[Mismatch]:
    pods = {(pod["metadata"]["namespace"], address) for pod in api.list(POD).items for address in addresses_of(pod)}
    machines = {*expected.addresses.values(), *expected.ipv6_addresses.values()}
    for piece in api.list(ENDPOINT_SLICE).items:
        space = piece["metadata"]["namespace"]
        name = (piece["metadata"].get("labels") or {}).get(NAME, "")
        if (space, name) not in own:
            continue
        for address in (address for endpoint in piece.get("endpoints") or () for address in endpoint["addresses"]):
            if address not in machines and (space, address) not in pods:
                where = f"Service {space}/{name} (EndpointSlice {piece['metadata']['name']})"
                yield Mismatch(where, "endpoints that are pods of its namespace or machines", address)


def _strange_dns(dns: Json | None, expected: ExpectedGuest) -> Iterator[Mismatch]:
    if dns is None:
        yield Mismatch("the cluster", "a Service of the DNS server", "none")
        return
    if key_of({**dns, "kind": SERVICE.kind}) in (installed(expected) or {}):
        return  # another check compares all of it with its manifest
    spec, where = dns["spec"], f"Service {dns['metadata']['namespace']}/{dns['metadata']['name']}"
    if expected.leaves.kubeadm is None:
        yield unjudged("what the DNS Service is like", "product.yml does not say that kubeadm made it (kubeadm)")
        return
    for key in FOREIGN:
        if spec.get(key):
            yield Mismatch(where, f"no {key}", str(spec[key]))
    for key, value in DEFAULTS.items():
        yield from differs(where, key, value, spec.get(key, value))
    ports = {(port.get("protocol", "TCP"), port["port"]) for port in spec.get("ports", ())}
    yield from differs(where, "ports", sorted(PORTS), sorted(ports))


ANSWERS = (0, 3)  # "no error" and "no such name" (RFC 1035, 4.1.1): the server has asked whoever knows
WORDS = {-1: "no answer", 2: "SERVFAIL", 5: "REFUSED"}


def answering(setups: Mapping[str, MachineSetup], name: str, expected: ExpectedGuest, ask: Ask) -> dict[str, str]:
    """Return the name server that answers for a name outside of the cluster, by node; without nodes that have none."""
    asked = {node: [[server, name] for server in setups[node].resolvers] for node in expected.nodes if node in setups}
    answers = ask({node: {**NO_DIALS, "code": queries} for node, queries in asked.items()})
    answered = {node: [server for _, server, _, code in rows if code in ANSWERS] for node, rows in answers.items()}
    return {node: servers[0] for node, servers in answered.items() if servers}


def not_passed_on(
    own: Mapping[str, str], servers: Mapping[str, str], name: str, expected: ExpectedGuest, ask: Ask
) -> list[Mismatch]:
    """Return the cluster's DNS servers that give a node no answer for a name that its own name server answers for.

    Args:
        own: the name server of each node that has one.
        servers: what the cluster's are, by address: the Service, and each pod behind it.
        name: one outside of the cluster that nobody has cached.
    """
    nodes = [node for node in expected.nodes if node in own]
    answers = ask({node: {**NO_DIALS, "code": [[server, name] for server in servers]} for node in nodes})
    mismatches = [] if len(servers) > 1 else [Mismatch("the cluster", "a DNS Service and pods behind it", str(servers))]
    for node in nodes:
        rows = answers.get(node, ())
        mismatches += differs(node, "answers", len(servers), len(rows))
        for _, server, _, code in rows:
            if code not in ANSWERS:
                requirement = f"an answer for {name}, as {own[node]} gives it to the machine"
                where = f"{node} -> {servers[server]} ({server}:53)"
                mismatches.append(Mismatch(where, requirement, WORDS.get(code, f"code {code}")))
    return mismatches
