"""Objects of a guest cluster at one moment, as its API returns them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP, DAEMON_SET, DEPLOYMENT, NODE, POD, SERVICE
from harness.validate.expected import ExpectedGuest

Json = dict[str, Any]
DNS_LABEL = ("k8s-app", "kube-dns")  # of the DNS server's objects, whatever runs it (kubernetes.io, "Using CoreDNS")
DEFAULT = "default"
OF_CHECKS = re.compile(r"(vmatrix-.*|.*-\d+)$")  # namespaces of checks, of conformance specs


@dataclass(frozen=True)
class ClusterView:
    """Objects as the API returns them, in all namespaces.

    namespaces: those of the cluster's own pods; None: all but those of users and checks.
    """

    nodes: tuple[Json, ...]
    pods: tuple[Json, ...]
    daemon_sets: tuple[Json, ...]
    deployments: tuple[Json, ...]
    namespaces: frozenset[str] | None = field(default=None, kw_only=True)

    def find(self, objects: Sequence[Json], namespace: str, name: str) -> Json | None:
        """Return an object of the view by its namespace and name."""
        for obj in objects:
            if (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) == (namespace, name):
                return obj
        return None

    @property
    def system_pods(self) -> tuple[Json, ...]:
        """Return the pods of the cluster's own namespaces."""
        return tuple(pod for pod in self.pods if self._own(pod["metadata"]["namespace"]))

    @property
    def lasting_pods(self) -> tuple[Json, ...]:
        """Return the pods of all namespaces, but for those of checks (and `default`, where nobody says which count)."""
        others = {DEFAULT} if self.namespaces is None else set()
        spaces = ((pod, pod["metadata"]["namespace"]) for pod in self.pods)
        return tuple(pod for pod, space in spaces if space not in others and OF_CHECKS.match(space) is None)

    def _own(self, namespace: str) -> bool:
        if self.namespaces is not None:
            return namespace in self.namespaces
        return namespace != DEFAULT and OF_CHECKS.match(namespace) is None


def by_name(objects: Iterable[Json]) -> dict[str, Json]:
    """Return objects by their name."""
    return {obj["metadata"]["name"]: obj for obj in objects}


def addresses_of(pod: Json) -> tuple[str, ...]:
    """Return a pod's addresses, one of each IP family that it has; none while it has none."""
    status = pod.get("status") or {}
    listed = tuple(str(pod_ip["ip"]) for pod_ip in status.get("podIPs") or ())
    return listed or tuple(filter(None, (str(status.get("podIP") or ""),)))


def pod_networks_of(node: Json) -> tuple[str, ...]:
    """Return a node's networks for pods (CIDR), one of each IP family that it has."""
    spec = node.get("spec") or {}
    return tuple(spec.get("podCIDRs") or ()) or tuple(filter(None, (spec.get("podCIDR", ""),)))


def of_family(texts: Iterable[str], version: int) -> str:
    """Return the first address or network of an IP family (4 or 6), "" without one."""
    return next((text for text in texts if (":" in text) == (version == 6)), "")


def value_at(settings: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of keys, joined by dots; None where there is none."""
    value: Any = settings
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def view_of(api: Cluster, namespaces: frozenset[str] | None = None) -> ClusterView:
    """List the objects once.

    Args:
        namespaces: those of the cluster's own pods; None: all but those of users and checks.
    """
    nodes, pods, daemon_sets, deployments = (
        tuple(api.list(kind).items) for kind in (NODE, POD, DAEMON_SET, DEPLOYMENT)
    )
    return ClusterView(nodes, pods, daemon_sets, deployments, namespaces=namespaces)


DNS_HOST, API_HOST = 10, 1  # the addresses of the Service network that kubeadm and the API server take for Services


def service_address(network: str, host: int) -> str:
    """Return an address of a Service network by its place in it; "" without a network."""
    return str(ipaddress.ip_network(network)[host]) if network else ""


def dns_address(api: Cluster, expected: ExpectedGuest) -> str:
    """Return the address at which the DNS server must be.

    With kubeadm, that follows from the Service network, whatever the Service has. Else it is the Service's, "" when it
    has none in the Service network.
    """
    if expected.leaves.kubeadm is not None and expected.service_cidr:
        return service_address(expected.service_cidr, DNS_HOST)
    service = dns_service(api, expected)
    address = service["spec"].get("clusterIP", "") if service else ""
    if not expected.service_cidr:
        return str(address)
    inside = address and ipaddress.ip_address(address) in ipaddress.ip_network(expected.service_cidr)
    return address if inside else ""


def dns_service(api: Cluster, expected: ExpectedGuest) -> Json | None:
    """Return the DNS server's Service: the one that the product names, else the one with the label of DNS servers."""
    service = expected.leaves.dns.service
    if service is not None:
        namespace, _, name = service.partition("/")
        return api.get(SERVICE, name, namespace)
    return next(iter(api.list(SERVICE, labels="=".join(DNS_LABEL)).items), None)


ZERO: tuple[Any, ...] = (None, "", 0, "0", "0s", {}, [])  # what kubeadm writes for "the kubelet's default"
OF_THE_NODE = ("resolvConf", "kind", "apiVersion")  # kubeadm sets the first by what runs on each machine


def settings_in(api: Cluster, place: str, key: str) -> Json | None:
    """Return the YAML under a key of a ConfigMap (NAMESPACE/NAME), None where it has none."""
    namespace, _, name = place.partition("/")
    text = ((api.get(CONFIG_MAP, name, namespace) or {}).get("data") or {}).get(key)
    read: Any = yaml.safe_load(text) if text is not None else None
    return read if isinstance(read, dict) else None


def explicit_settings(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings that are not left to the kubelet's default, each with its path of keys, joined by dots."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from explicit_settings(value, f"{above}{key}.")
        elif not (value in ZERO and value is not False) and key not in OF_THE_NODE:
            yield f"{above}{key}", value
