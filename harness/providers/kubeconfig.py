"""Provider `kubeconfig`: any cluster that has KubeVirt and CDI."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.errors import BadInput
from harness.infra.cluster import nested
from harness.infra.cluster.capacity import Need
from harness.infra.cluster.checks import Use, check_cluster
from harness.infra.cluster.trial import NetworkTrial
from harness.infra.findings import Finding
from harness.infra.kubeconfig import NAME, KubeconfigProvider
from harness.kube.client import Cluster
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.model import Mirror
from harness.providers.definition import Definition, Opening
from harness.spec.settings import Settings, networks_of


class KubeconfigDefinition(Definition):
    """Provider `kubeconfig`."""

    name = NAME
    needed = ("kubeconfig", "mirror_http", "registry")  # settings; the first one not in a pod

    def open(self, opening: Opening) -> KubeconfigProvider:
        """Return the cluster that the settings lead to."""
        settings = opening.settings
        self._refuse_missing(settings)
        mirror = Mirror(http=str(settings.mirror_http), registry=str(settings.registry))
        given = nested.read_vars(settings.guest_vars)
        path, context = self.kubeconfig(settings)
        return KubeconfigProvider(path, context, mirror, use_of(settings, opening.product), given)

    def kubeconfig(self, settings: Settings) -> tuple[Path, str | None]:
        """Return the kubeconfig of the settings; in a pod, without one there, its service account's.

        Raises:
            BadInput: there is none.
        """
        path = settings.kubeconfig or _service_account()
        if path is None:
            hint = "pass --kubeconfig PATH or set it in vmatrix.yml"
            raise BadInput("provider kubeconfig needs a kubeconfig", hint=hint)
        return path, settings.context

    def options(self, settings: Settings) -> list[str]:
        """Return the options that name the same infra cluster to another vmatrix command."""
        within = ["--namespace", settings.namespace] if settings.namespace is not None else []
        return ["--provider", self.name, "--kubeconfig", str(self.kubeconfig(settings)[0]), *within]

    def refuse_unusable(self, settings: Settings) -> None:
        """Refuse settings that cannot lead to a cluster."""
        self.open(Opening(settings))
        path, context = self.kubeconfig(settings)
        Cluster.from_kubeconfig(path, context=context)

    def first_look(self, opening: Opening) -> list[Finding]:
        """Look at the cluster."""
        path, context = self.kubeconfig(opening.settings)
        return check_cluster(path, context, use_of(opening.settings, opening.product))

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at the cluster."""
        path, context = self.kubeconfig(settings)
        return f"the cluster of {path}", check_cluster(path, context, use())

    def _refuse_missing(self, settings: Settings) -> None:
        missing = [name for name in self.needed if getattr(settings, name) is None]
        if "kubeconfig" in missing and _service_account() is not None:
            missing.remove("kubeconfig")
        if missing:
            raise BadInput(
                f"provider {self.name} needs the setting {' and '.join(missing)}",
                hint="guests pull binaries and images from a mirror: `vmatrix artifacts serve` runs one",
            )


def use_of(settings: Settings, product: Path, need: Need | None = None, trial: NetworkTrial | None = None) -> Use:
    """Return what an existing cluster is to be used for, as its checks need to know it.

    Args:
        trial: how its network is to be tried; not at all without it.

    Raises BadInput when the file of guests' variables cannot be used.
    """
    return Use(
        namespace=settings.namespace,
        storage_class=settings.storage_class,
        need=need or Need(),
        networks=nested.networks(product, nested.read_vars(settings.guest_vars)),
        outer=networks_of(settings.outer_networks),
        bridged=settings.binding == "bridge",
        isolated=settings.network_policy,
        trial=trial,
    )


def _service_account() -> Path | None:
    """Return a kubeconfig of the service account of the pod that this process runs in, None outside of one."""
    return in_cluster_kubeconfig(paths.state_dir() / "in-cluster.kubeconfig", os.environ)


PROVIDER = KubeconfigDefinition()
