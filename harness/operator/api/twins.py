"""The rules of the definitions, judged here: the same words for objects that came past the API server's rules.

Rules about a change (`oldSelf`) have no twin: only the API server sees both sides of an edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from harness.operator.api import etcd_rules, network, sets
from harness.operator.api.base import Cel
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import FLAG_PATTERN, FLAGS, Flags
from harness.operator.api.metadata import CLUSTER_NAME, NAME_LENGTH, NAME_PATTERN
from harness.operator.api.sets import CONTROL_PLANE, ETCD, WORKER, WantedSet

Broken = Iterator[tuple[str, Cel]]  # path of the model, and the rule of the model that does not hold


def network_of(text: str) -> IPv4Network | IPv6Network | None:
    """Read a network in CIDR notation, None when it is none, or one in a form that the API server does not read."""
    try:
        found = ip_network(text)
    except ValueError:
        return None
    mapped = isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None
    return None if mapped or re.search("/0[0-9]", text) else found


def broken(cd: ClusterDeployment, *, creating: bool) -> Broken:
    """Yield the rules that do not hold; `creating`: nothing was deployed yet."""
    if len(cd.metadata.name) > NAME_LENGTH or not re.fullmatch(NAME_PATTERN, cd.metadata.name):
        yield "", CLUSTER_NAME
    yield from _network(cd)
    yield from _source(cd)
    yield from _flags(cd)
    for number, one in enumerate(cd.spec.machine_sets):
        yield from _set(f"spec.machineSets[{number}]", one)
    for rule in _etcd(cd.spec.machine_sets):
        if creating or not rule.creating:
            yield "spec", rule


def _network(cd: ClusterDeployment) -> Broken:
    pods, services = network_of(cd.spec.network.pods), network_of(cd.spec.network.services)
    if pods is None:
        yield "spec.network", network.PODS_CIDR
    if services is None:
        yield "spec.network", network.SERVICES_CIDR
    if pods is not None and services is not None and pods.overlaps(services):
        yield "spec.network", network.OVERLAP


def _source(cd: ClusterDeployment) -> Broken:
    if cd.spec.source.type == "Mirror" and cd.spec.source.mirror is None:
        yield "spec.source", network.NO_MIRROR
    if cd.spec.source.registry is None:
        yield "spec.source", network.NO_REGISTRY


def _flags(cd: ClusterDeployment) -> Broken:
    parts: dict[str, Flags] = {
        "spec.etcd": cd.spec.etcd,
        "spec.kubernetes.apiServer": cd.spec.kubernetes.api_server,
        "spec.kubernetes.controllerManager": cd.spec.kubernetes.controller_manager,
        "spec.kubernetes.scheduler": cd.spec.kubernetes.scheduler,
    }
    for path, flags in parts.items():
        if not all(re.fullmatch(FLAG_PATTERN, flag) for flag in flags.extra_args):
            yield path, FLAGS


def _set(path: str, one: WantedSet) -> Broken:
    if (one.machines.pool is None) == (one.machines.names is None):
        yield f"{path}.machines", sets.ONE_SOURCE
    if one.machines.names is not None and len(one.machines.names) != one.replicas:
        yield path, sets.AS_MANY_AS_NAMES
    if one.has(ETCD) and one.has(WORKER) and not one.has(CONTROL_PLANE):
        yield path, sets.ETCD_ALONE


def _etcd(wanted: tuple[WantedSet, ...]) -> Iterator[Cel]:
    control_planes = sum(one.replicas for one in wanted if one.has(CONTROL_PLANE))
    external = [one for one in wanted if one.has(ETCD) and not one.has(CONTROL_PLANE)]
    members = sum(one.replicas for one in external)
    if control_planes == 0:
        yield etcd_rules.NO_CONTROL_PLANE
    both = any(one.has(ETCD) and one.has(CONTROL_PLANE) for one in wanted)
    if both and any(one.has(ETCD) != one.has(CONTROL_PLANE) for one in wanted):
        yield etcd_rules.MIXED
    if not external and control_planes == 2:
        yield etcd_rules.TWO_STACKED
    if external and members == 2:
        yield etcd_rules.TWO_MEMBERS
    if external and members == 0:
        yield etcd_rules.NO_MEMBER
