"""Rules of NetworkPolicies around machines' launcher pods, of cells and of declared clusters: peers, blocks, names.

A policy sees pods by their labels and everything else by its address; behind a Service it sees the pods, on their own
ports. https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from harness.errors import InfraError
from harness.kube.client import Json
from harness.kube.in_cluster import own_namespace

LAUNCHER = {"kubevirt.io": "virt-launcher"}  # KubeVirt labels every launcher pod so, beside the machine's own labels
# KubeVirt labels every launcher pod with the hostname of its machine, whatever labels the machine has:
# https://github.com/kubevirt/kubevirt/blob/main/pkg/virt-controller/services/template.go (podLabels)
LAUNCHER_NAME = "vm.kubevirt.io/name"
# `portforward` and consoles: KubeVirt's virt-api dials the machine's address, from a pod in a namespace that differs.
VIRT_API = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"kubevirt.io": "virt-api"}}}
# DNS: CoreDNS or kube-dns, OpenShift's, a cache on the node.
DNS: Json = {
    "to": [
        {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}},
        {
            "namespaceSelector": {},
            "podSelector": {"matchLabels": {"dns.operator.openshift.io/daemonset-dns": "default"}},
        },
        {"ipBlock": {"cidr": "169.254.20.10/32"}},
    ],
    "ports": [{"protocol": protocol, "port": port} for port in (53, 5353) for protocol in ("UDP", "TCP")],
}
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server labels every namespace with its name
# RFC 1918 and 6598, link-local (a cloud's metadata is there), loopback; IPv6's unique local and link-local
NOT_INTERNET = {
    "0.0.0.0/0": ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    "::/0": ("fc00::/7", "fe80::/10"),
}
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """An address or name that machines connect to, its port, and the setting or field that names it."""

    setting: str
    host: str
    port: int

    @staticmethod
    def of_url(setting: str, url: str) -> Endpoint:
        """Return the server of a URL, with the port of its scheme where it names none."""
        parts = urlsplit(url)
        return Endpoint(setting, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 80))

    @staticmethod
    def of_registry(setting: str, name: str) -> Endpoint:
        """Return a registry, written as HOST:PORT with or without a path; HTTPS without a port."""
        parts = urlsplit(f"//{name}")
        return Endpoint(setting, parts.hostname or "", parts.port or PORTS["https"])


def rule_to(endpoint: Endpoint, remedy: str) -> Json:
    """Return the rule that lets machines reach an endpoint.

    Args:
        remedy: the setting or field that allows networks as well.

    Raises:
        InfraError: its name cannot be resolved.
    """
    inside = _service_namespace(endpoint.host)
    if inside:  # policies see the pods behind a service, on ports of their own
        return {"to": [in_namespace(inside)]}
    try:
        known = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InfraError(
            f"{endpoint.setting}: {endpoint.host} cannot be resolved ({error.strerror or error}), so no NetworkPolicy "
            "can allow it",
            hint=f"use an address in {endpoint.setting}, or name its network in {remedy}",
        ) from error
    addresses = sorted({str(entry[4][0]) for entry in known}, key=lambda text: (":" in text, text))
    return {
        "to": [block(single(address)) for address in addresses],
        "ports": [{"protocol": "TCP", "port": endpoint.port}],
    }


def internet() -> list[Json]:
    """Return the rules that let machines reach public addresses, and no private ones."""
    return [{"to": [block(network, *inner)]} for network, inner in NOT_INTERNET.items()]


def in_namespace(name: str, pods: Mapping[str, str] | None = None) -> Json:
    """Return the peer of the pods of a namespace. pods: labels that they have; None: all of them."""
    made: dict[str, Any] = {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}
    return made if pods is None else {**made, "podSelector": {"matchLabels": dict(pods)}}


def own_peers(server: str, environment: Mapping[str, str] = os.environ) -> Iterator[Json]:
    """Yield where direct connections of this process come from: its pod's namespace, its address on the way there.

    Args:
        server: URL of the infra cluster's API.
    """
    namespace = own_namespace(environment)
    if namespace:
        yield in_namespace(namespace)
    address = own_address(server)
    if address and not ip_address(address).is_loopback:
        yield block(single(address))


def own_address(server: str) -> str:
    """Return the address that this process has on the way to a server, "" where there is no way."""
    url = urlsplit(server)
    try:
        family, kind, _, _, target = socket.getaddrinfo(url.hostname, url.port or 443, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # sends nothing: only the route is looked up
            return str(probe.getsockname()[0])
    except OSError:  # no way to the API server either, which is told elsewhere
        return ""


def single(address: str) -> str:
    """Return the network of one address."""
    parsed = ip_address(address.partition("%")[0])
    return f"{parsed}/{parsed.max_prefixlen}"


def block(cidr: str, *inner: str) -> Json:
    """Return the peer of a network. inner: parts of it that are left out."""
    return {"ipBlock": {"cidr": cidr, **({"except": list(inner)} if inner else {})}}


def _service_namespace(host: str) -> str:
    """Return the namespace in the name of a Service (NAME.NAMESPACE.svc, with or without a domain), "" of another."""
    words = host.split(".")
    return words[1] if len(words) > 2 and words[2] == "svc" else ""
