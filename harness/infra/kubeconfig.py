"""Any cluster that has KubeVirt and CDI already: nothing is installed, nothing is taken down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.infra.cluster import nested
from harness.infra.cluster.checks import Use, check_cluster
from harness.infra.findings import raise_if_any
from harness.kube import Cluster
from harness.model import Access, Mirror

NAME = "kubeconfig"
IN_CLUSTER_NAMES = frozenset({"kubernetes", "kubernetes.default", "kubernetes.default.svc"})


class KubeconfigProvider:
    """An infra cluster that a kubeconfig leads to.

    given: variables of the playbooks that the user says its machines need.
    """

    name = NAME

    def __init__(
        self,
        path: Path,
        context: str | None,
        mirror: Mirror,
        use: Use | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._given = given or {}
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

    def access(self) -> Access:
        """Return `direct` where this process is a pod of that very cluster: pods reach machines' addresses."""
        return "direct" if within(self._cluster().server) else "portforward"

    def guest_vars(self) -> Mapping[str, Any]:
        """Return what keeps guests' networks apart from the cluster's own, and what the user adds.

        Raises:
            ApiFailure, Unreachable: the cluster cannot be asked.
        """
        return self._nested

    @cached_property
    def _nested(self) -> Mapping[str, Any]:
        return nested.variables(self._cluster(), self._given, self._use.outer)

    def spare_addresses(self, _: str) -> tuple[str, ...]:
        """Return nothing: who gives out addresses here is not known."""
        return ()

    def mirror(self) -> Mirror:
        """Return the mirror that was given."""
        return self._mirror

    def describe(self) -> Mapping[str, Any]:
        """Return the API's address and version."""
        cluster = self._cluster()
        return {
            "provider": self.name,
            "server": cluster.server,
            "kubernetes": cluster.version(),
            "kubeconfig": str(self._path),
        }

    def _cluster(self) -> Cluster:
        return Cluster.from_kubeconfig(self._path, context=self._context)


def within(server: str, environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether a server's URL is that of the API of the cluster in which this process is a pod.

    Args:
        environment: variables; those of this process without it. A kubelet gives every pod the API's address in them:
            https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    """
    own = (os.environ if environment is None else environment).get("KUBERNETES_SERVICE_HOST", "")
    return bool(own) and urlsplit(server).hostname in {own.strip("[]"), *IN_CLUSTER_NAMES}
