"""The networks of clusters with IPv6 in matrix files: they are networks of the right families, apart, large enough.

Works on the files' plain data, as `crossref` does, which calls it. The playbooks' preflight judges again what a run
adds: the infra's variables, and the machines' addresses. Does not cover products with other names for these variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import combinations
from typing import Any

from harness.spec.declared import EACH, find
from harness.spec.lines import Document, Location, Problem

Network = IPv4Network | IPv6Network
PODS, SERVICES = "cluster_pod_cidr", "cluster_service_cidr"
IPV6_PODS, IPV6_SERVICES = "cluster_ipv6_pod_cidr", "cluster_ipv6_service_cidr"
EXAMPLES = {PODS: "10.243.0.0/16", SERVICES: "10.95.0.0/16", IPV6_PODS: "fd10:243::/56", IPV6_SERVICES: "fd10:95::/112"}
LARGEST = {PODS: 48, SERVICES: 108, IPV6_PODS: 48, IPV6_SERVICES: 108}  # prefix lengths of IPv6 for kubeadm, API server
LARGEST_IPV4 = {PODS: 8, SERVICES: 12}  # the same of IPv4
FEWEST_SERVICES = 10  # kubeadm's constants.MinimumAddressesInServiceSubnet
OF_NODE = {4: 24, 6: 64}  # by IP version: prefix length of each node's pods, as kubeadm has it
Place = tuple[str, Location]  # a file and where in it


def check(documents: Mapping[str, Document], *, ipv4: bool = False) -> list[Problem]:
    """Return what is wrong with the networks that cells have by product.yml and axes.yml, one problem a place.

    Args:
        ipv4: whether those of clusters with IPv4 alone are judged, too, as they are for the packaged playbooks.
    """
    product, nodes = documents["product.yml"].content, _nodes(documents["topologies.yml"].content)
    of_product = {str(at[-1]): (("product.yml", at), value) for at, value in find(product, "product", "vars", EACH)}
    places: list[dict[str, tuple[Place, Any]]] = [{}, *_values(documents["axes.yml"].content)]
    message_by_place: dict[Place, str] = {}
    for own in places:
        chosen = {
            name: place_and_text
            for name, place_and_text in {**of_product, **own}.items()
            if name in EXAMPLES and place_and_text[1] not in ("", None)
        }
        if ipv4 or {IPV6_PODS, IPV6_SERVICES} & chosen.keys() or any(_of_ipv6(text) for _, text in chosen.values()):
            for place, message in _mistakes(chosen, nodes):
                message_by_place.setdefault(place, message)
    return [documents[file].problem(at, message) for (file, at), message in message_by_place.items()]


def _values(axes: Any) -> Iterator[dict[str, tuple[Place, Any]]]:
    """Yield the variables of each value that has one of these."""
    for at, value in find(axes, "axes", EACH, "values", EACH):
        own = {str(key[-1]): (("axes.yml", (*at, *key)), text) for key, text in find(value, "vars", EACH)}
        if EXAMPLES.keys() & own.keys():
            yield own


def _nodes(topologies: Any) -> int:
    """Return how many nodes the largest topology has."""
    sizes = []
    for _, topology in find(topologies, "topologies", EACH):
        groups = [machine for _, machine in find(topology, "machines", EACH) if isinstance(machine, Mapping)]
        nodes = [machine for machine in groups if {"control_plane", "node"} & set(machine.get("groups") or ())]
        sizes.append(sum(machine["count"] for machine in nodes if isinstance(machine.get("count"), int)))
    return max(sizes, default=1)


def _mistakes(chosen: Mapping[str, tuple[Place, Any]], nodes: int) -> Iterator[tuple[Place, str]]:
    for names, message in network_mistakes({name: text for name, (_, text) in chosen.items()}, nodes):
        yield max((chosen[name][0] for name in names), key=_of_axes), message


def network_mistakes(values: Mapping[str, Any], nodes: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with the networks of one cluster: the variables that it is about, and why with a remedy.

    Args:
        values: of the variables in EXAMPLES, as far as they are set.  nodes: how many the cluster has.
    """
    networks: dict[str, Network] = {}
    for name, text in values.items():
        read = _read(name, text, dual=IPV6_PODS in values)
        if isinstance(read, str):
            yield (name,), read
        else:
            networks[name] = read
    for name, other in ((IPV6_PODS, IPV6_SERVICES), (IPV6_SERVICES, IPV6_PODS)):
        if name in values and other not in values:
            yield (name,), f"a cluster of both IP families needs {other} as well; set both, or none"
    pods, services = networks.get(PODS), networks.get(SERVICES)
    if pods is not None and services is not None and pods.version != services.version:
        message = (
            f"{PODS} {pods} and {SERVICES} {services} are of two IP families; use one, and cluster_ipv6_* for both"
        )
        yield (SERVICES, PODS), message
    for name, other in combinations(networks, 2):
        if networks[name].overlaps(networks[other]):
            message = f"{name} {networks[name]} and {other} {networks[other]} overlap; choose separate networks"
            yield (other, name), message
    for name, message in _sizes(networks, nodes):
        yield (name,), message


def _of_ipv6(text: Any) -> bool:
    try:
        return isinstance(text, str) and ip_network(text, strict=False).version == 6
    except ValueError:  # a template, or what the product takes
        return False


def _of_axes(place: Place) -> bool:
    return place[0] == "axes.yml"


def _sizes(networks: Mapping[str, Network], nodes: int) -> Iterator[tuple[str, str]]:
    """Yield the names of networks that Kubernetes does not take, or that have no room for each node, with why."""
    for name, length in LARGEST.items():
        network = networks.get(name)
        most = length if network is not None and network.version == 6 else LARGEST_IPV4.get(name, 0)
        if network is not None and network.prefixlen < most:
            yield name, f"{network} is too large for Kubernetes; use a /{most} or smaller"
    for name in (SERVICES, IPV6_SERVICES):
        if name in networks and networks[name].num_addresses < FEWEST_SERVICES:
            message = (
                f"{networks[name]} has {networks[name].num_addresses} addresses, and kubeadm asks for {FEWEST_SERVICES}"
            )
            yield name, f"{message}; use a larger network, such as {EXAMPLES[name]}"
    for name in (PODS, IPV6_PODS):
        pods = networks.get(name)
        length = OF_NODE[pods.version] if pods is not None else 0
        if pods is not None and (pods.prefixlen > length or 1 << (length - pods.prefixlen) < nodes):
            message = f"{pods} has no /{length} for each of {nodes} nodes"
            yield name, f"{message}; use a larger network, such as {EXAMPLES[PODS if pods.version == 4 else IPV6_PODS]}"


def _read(name: str, text: Any, *, dual: bool) -> Network | str:
    """Return a network, or what is wrong with it. `dual`: whether the cluster has both IP families, IPv4 first."""
    families = (6,) if name in (IPV6_PODS, IPV6_SERVICES) else (4,) if dual else (4, 6)
    remedy = f"write one such as {EXAMPLES[name]}"
    try:
        network = ip_network(text) if isinstance(text, str) else None
    except ValueError as error:
        return f"{error}; {remedy}"
    if network is None:
        return f"{text!r} is not a network; {remedy}"
    if network.version not in families:
        return f"{network} is not a network of IPv{families[0]}; {remedy}"
    return network
