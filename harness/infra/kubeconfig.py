"""Any cluster that has KubeVirt and CDI already: nothing is installed, nothing is taken down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.infra.cluster_checks import Use, check_cluster
from harness.infra.findings import raise_if_any
from harness.infra.nodes import free_for_machines
from harness.kube import ApiFailure, Cluster
from harness.model import Capacity, Mirror

FORBIDDEN = 403
UNKNOWN = Capacity(cpus=1e6, memory_mib=2**40, disk_gib=2**30)


class KubeconfigProvider:
    """An infra cluster that a kubeconfig leads to."""

    def __init__(self, path: Path, context: str | None, mirror: Mirror, use: Use | None = None) -> None:
        self.name = "kubeconfig"
        self._use = use or Use()
        self._path = path
        self._context = context
        self._mirror = mirror

    def up(self) -> None:
        """Look whether the cluster has everything; make nothing.

        Raises:
            BadInput: it lacks something (all of it at once).
        """
        raise_if_any(check_cluster(self._path, self._context, self._use))

    def down(self) -> None:
        """Leave the cluster as it is: it is not ours. What runs left in it is reaped by label."""

    def kubeconfig(self) -> Path:
        """Return the kubeconfig that was given."""
        return self._path

    def capacity(self) -> Capacity:
        """Return what the nodes have free; where nodes cannot be listed, no bound: the cluster's scheduler decides."""
        try:
            return free_for_machines(self._cluster())
        except ApiFailure as failure:
            if failure.code == FORBIDDEN:
                return UNKNOWN
            raise

    def guest_vars(self) -> Mapping[str, Any]:
        """Return nothing: machines with a kernel of their own need no special treatment."""
        return {}

    def mirror(self) -> Mirror:
        """Return the mirror that was given."""
        return self._mirror

    def describe(self) -> Mapping[str, Any]:
        """Return the API's address and version."""
        cluster = self._cluster()
        version = cluster.request("GET", "/version")
        return {
            "provider": self.name,
            "server": cluster.server,
            "kubernetes": version.get("gitVersion", ""),
            "kubeconfig": str(self._path),
        }

    def _cluster(self) -> Cluster:
        return Cluster.from_kubeconfig(self._path, context=self._context)
