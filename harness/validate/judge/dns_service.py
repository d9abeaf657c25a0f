"""Part of kubelets.py."""

from __future__ import annotations

import ipaddress

from harness.kube import Cluster
from harness.kube.resources import SERVICE
from harness.validate.facts.cluster import DNS_LABEL, Json
from harness.validate.facts.expected import ExpectedGuest


def dns_address(api: Cluster, expected: ExpectedGuest) -> str:
    """Return the address of the DNS server's Service, "" when it has none in the Service network."""
    service = dns_service(api, expected)
    address = service["spec"].get("clusterIP", "") if service else ""
    if not expected.service_cidr:
        return str(address)
    inside = address and ipaddress.ip_address(address) in ipaddress.ip_network(expected.service_cidr)
    return address if inside else ""


def dns_service(api: Cluster, expected: ExpectedGuest) -> Json | None:
    """Return the DNS server's Service: the one that the product names, else the one with the label of DNS servers."""
    said = expected.leaves.dns.service
    if said is not None:
        namespace, _, name = said.partition("/")
        return api.get(SERVICE, name, namespace)
    return next(iter(api.list(SERVICE, labels="=".join(DNS_LABEL)).items), None)
