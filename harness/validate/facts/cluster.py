"""The objects of a guest cluster at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import DAEMON_SET, DEPLOYMENT, NODE, POD
from harness.validate.facts.network_plugins import plugins

Json = dict[str, Any]
SYSTEM_NAMESPACES = frozenset({"kube-system", "local-path-storage"})  # and those of network plugins


@dataclass(frozen=True)
class ClusterView:
    """Objects as the API returns them, in all namespaces."""

    nodes: tuple[Json, ...]
    pods: tuple[Json, ...]
    daemon_sets: tuple[Json, ...]
    deployments: tuple[Json, ...]

    def find(self, objects: Sequence[Json], namespace: str, name: str) -> Json | None:
        """Return an object of the view by its namespace and name."""
        for obj in objects:
            if (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) == (namespace, name):
                return obj
        return None

    @property
    def system_pods(self) -> tuple[Json, ...]:
        """Return the pods of the cluster's own namespaces."""
        own = {plugin.daemon[0] for plugin in plugins().values() if plugin.daemon is not None}
        return tuple(pod for pod in self.pods if pod["metadata"]["namespace"] in SYSTEM_NAMESPACES | own)


def by_name(objects: Iterable[Json]) -> dict[str, Json]:
    """Return objects by their name."""
    return {obj["metadata"]["name"]: obj for obj in objects}


def value_at(settings: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of keys, joined by dots; None where there is none."""
    value: Any = settings
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def view_of(api: Cluster) -> ClusterView:
    """List the objects once."""
    return ClusterView(*(tuple(api.list(kind).items) for kind in (NODE, POD, DAEMON_SET, DEPLOYMENT)))
