"""The objects of a guest cluster at one moment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import DAEMON_SET, DEPLOYMENT, NODE, POD

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
    listed = tuple(str(one["ip"]) for one in status.get("podIPs") or ())
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
