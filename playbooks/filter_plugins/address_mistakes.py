"""Jinja filter `address_mistakes`: what is wrong with a cluster's addresses and networks, each with its remedy.

For preflight, which says it before any machine changes. A filter, because it compares networks and ranges of addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from itertools import combinations
from typing import Any, NamedTuple

Network = IPv4Network | IPv6Network
EXAMPLES = {
    "cluster_pod_cidr": "10.243.0.0/16",
    "cluster_service_cidr": "10.95.0.0/16",
    "cluster_ipv6_pod_cidr": "fd10:243::/56",
    "cluster_ipv6_service_cidr": "fd10:95::/112",
}
PODS, SERVICES, *IPV6 = EXAMPLES
NODE_PREFIX = {4: 24, 6: 64}  # by IP version; kubeadm's node-cidr-mask-size-ipv4 and -ipv6
# kubeadm: a pod network has 16 bits more than a node's at most. API server: a Service network has 20 bits at most.
LARGEST = {PODS: (48, "kubeadm"), SERVICES: (108, "the API server")}
FEWEST_SERVICES = 10  # addresses: kubeadm's constants.MinimumAddressesInServiceSubnet
VIRTUAL = "cluster_api_virtual_address"
BALANCED = "cluster_load_balancer_addresses"
FORMS = "give addresses as 192.0.2.240-192.0.2.250 or 192.0.2.240/28"
# What must not meet: networks of the cluster, addresses that somebody has, the virtual one, ranges for load balancers.
CONTAINS = "{1.name} {1.text} contains {0.text}, the address of {0.name}: choose addresses that nobody has"
MEETINGS = {
    ("network", "network"): "{0.name} {0.text} overlaps {1.name} {1.text}: choose separate networks",
    ("network", "host"): "{0.name} {0.text} contains {1.text}, the address of {1.name}, which would become unreachable:"
    " choose a network without machines",
    ("network", "virtual"): "{1.name} {1.text} is in {0.name} {0.text}: use a free address of the machines' network",
    ("host", "virtual"): "{1.name} {1.text} is the address of {0.name}: use one that nobody has",
    ("network", "range"): "{1.name} {1.text} overlaps {0.name} {0.text}: choose addresses that nothing else has",
    ("range", "range"): "{1.name} {1.text} overlaps {0.text}: choose addresses that nothing else has",
    ("host", "range"): CONTAINS,
    ("virtual", "range"): CONTAINS.replace("{0.name}", "the API servers"),
}


class Claim(NamedTuple):
    """Addresses from the first to the last, and whose they are. kind: as in MEETINGS."""

    kind: str
    name: str
    text: str
    first: Any
    last: Any


def address_mistakes(given: Mapping[str, Any], hosts: Sequence[Any], machines: Sequence[str], nodes: int) -> list[str]:
    """Return what is wrong.

    Args:
        given: the variables of EXAMPLES, those of IPv6 "" without it; `cluster_load_balancer_addresses`, None where no
            MetalLB hands them out; `cluster_api_virtual_address`, if there is one;
            and `outside`: further addresses that machines have to reach.
        hosts: cluster_hosts, which has to name every machine.
        machines: names of the inventory.  nodes: how many of them need a network of the pods' network.
    """
    networks: dict[str, Network] = {}
    wrong = list(_hosts(hosts, machines, dual=bool(given[IPV6[0]]), version=6 if ":" in str(given[PODS]) else 4))
    for name, example in EXAMPLES.items():
        try:
            if given[name] or name not in IPV6:
                networks[name] = ip_network(str(given[name]))
        except ValueError as error:
            wrong.append(f"{name}: {error}: use a network such as {example}")
    taken = {str(each[key]): f"machine {each.get('name')}" for each in hosts for key in _keys(each)}
    taken |= dict.fromkeys(map(str, given["outside"]), "the mirror")
    claims = [Claim("network", name, str(network), network[0], network[-1]) for name, network in networks.items()]
    owned = [("host", whose, text) for text, whose in taken.items()] + [("virtual", VIRTUAL, given.get(VIRTUAL))]
    claims += [Claim(kind, name, str(text), own, own) for kind, name, text in owned if (own := _address(text))]
    for place, entry in enumerate(given[BALANCED] or ()):
        try:
            claims.append(Claim("range", f"{BALANCED}[{place}]", str(entry), *_ends(str(entry))))
        except ValueError as error:
            wrong.append(f"{BALANCED}[{place}] {entry} ({error}): {FORMS}")
    wrong += [*_families(given, networks), *_of_others(given, networks), *_sizes(networks, nodes)]
    return wrong + list(_meetings(claims))


def _keys(host: Mapping[str, Any]) -> list[str]:
    return [key for key in ("address", "ipv6_address") if key in host]


def _address(text: Any) -> Any:
    """Return an IP address, None when the text is none."""
    try:
        return ip_address(str(text))
    except ValueError:
        return None


def _hosts(hosts: Sequence[Mapping[str, Any]], nodes: Sequence[str], *, dual: bool, version: int) -> Iterator[str]:
    names = Counter(str(host.get("name")) for host in hosts)
    yield from (f"cluster_hosts names {name} {count} times" for name, count in names.items() if count > 1)
    yield from (f"machine {n} is not in cluster_hosts: add its name and address" for n in nodes if n not in names)
    for host in hosts:
        address, second = _address(host.get("address")), _address(host.get("ipv6_address"))
        if address is not None and address.version != version:
            yield (
                f"cluster_hosts: the address {address} of machine {host.get('name')} is not of IPv{version}, as"
                " cluster_pod_cidr is: let both be of one IP family"
            )
        if dual and (second is None or second.version == 4):
            yield (
                f"cluster_hosts: machine {host.get('name')} needs an ipv6_address, and has"
                f" {host.get('ipv6_address', 'none')}: add it, or leave {' and '.join(IPV6)} empty"
            )
    for text, count in Counter(str(host[key]) for host in hosts for key in _keys(host)).items():
        if _address(text) is None:
            yield f"cluster_hosts: {text} is not an IP address"
        elif count > 1:
            yield f"cluster_hosts gives {text} to {count} machines: every machine needs a unique address"


def _families(given: Mapping[str, Any], networks: Mapping[str, Network]) -> Iterator[str]:
    for name, other in (IPV6, IPV6[::-1]):
        if given[name] and not given[other]:
            yield f"{name} is set and {other} is not: set both, or none"
        if name in networks and networks[name].version == 4:
            yield f"{name} {networks[name]} is not of IPv6: use a network such as {EXAMPLES[name]}"
    if len({networks[name].version for name in (PODS, SERVICES) if name in networks}) == 2:
        yield f"{PODS} {networks[PODS]} and {SERVICES} {networks[SERVICES]} are of two IP families: use one"
    for name in (PODS, SERVICES):
        if given[IPV6[0]] and name in networks and networks[name].version == 6:
            yield (
                f"{name} {networks[name]} is of IPv6, and so is {IPV6[0]}: a cluster of both families has IPv4 first,"
                f" such as {EXAMPLES[name]}; one of IPv6 alone leaves cluster_ipv6_* empty"
            )


def _of_others(given: Mapping[str, Any], networks: Mapping[str, Network]) -> Iterator[str]:
    address, pods = _address(given.get(VIRTUAL)), networks.get(PODS)
    if given.get(VIRTUAL) and address is None:
        yield f"{VIRTUAL} {given[VIRTUAL]} is not an IP address: use one such as 192.0.2.50, or leave it out"
    if address is not None and pods is not None and address.version != pods.version:
        yield f"{VIRTUAL} {address} is not of IPv{pods.version}, as {PODS} is: use one of the same IP family"
    if given[BALANCED] == []:
        yield f"cluster_metallb_version is set and {BALANCED} is not: {FORMS}, of the machines' network"


def _sizes(networks: Mapping[str, Network], nodes: int) -> Iterator[str]:
    for name, network in networks.items():
        kind = PODS if "pod" in name else SERVICES
        (largest, program), node = LARGEST[kind], NODE_PREFIX[network.version]
        if network.version == 6 and network.prefixlen < largest:
            yield f"{name} {network} is too large: {program} takes a /{largest} at most"
        if kind == PODS and (network.prefixlen > node or 1 << (node - network.prefixlen) < nodes):
            yield f"{name} {network} has no /{node} for each of {nodes} nodes: choose a larger network"
        if kind == SERVICES and network.num_addresses < FEWEST_SERVICES:
            yield (
                f"{name} {network} has {network.num_addresses} addresses, and kubeadm asks for {FEWEST_SERVICES}:"
                " choose a larger network"
            )


def _meetings(claims: Sequence[Claim]) -> Iterator[str]:
    for one, other in combinations(claims, 2):
        same = one.first.version == other.first.version
        if same and one.first <= other.last and other.first <= one.last and (one.kind, other.kind) in MEETINGS:
            yield MEETINGS[one.kind, other.kind].format(one, other)


def _ends(text: str) -> tuple[IPv4Address, IPv4Address]:
    """Return the first and the last address of a range. Raises ValueError with what is wrong."""
    network = IPv4Network(text) if "-" not in text else text.split("-", 1)
    ends = IPv4Address(str(network[0]).strip()), IPv4Address(str(network[-1]).strip())
    if ends[0] > ends[1]:
        raise ValueError(f"{ends[0]} is above {ends[1]}")
    return ends


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"address_mistakes": address_mistakes}
