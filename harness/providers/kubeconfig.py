"""Provider `kubeconfig`: a cluster of somebody else's with KubeVirt and CDI."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness import paths
from harness.errors import BadInput
from harness.infra.cluster import guest_vars
from harness.infra.cluster.capacity import Need
from harness.infra.cluster.checks import Use, check_cluster
from harness.infra.cluster.trial import NetworkTrial
from harness.infra.findings import Finding, raise_if_any
from harness.kube.client import Cluster, Infra
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.model import Access, Mirror
from harness.providers.definition import Definition, Opening
from harness.spec.settings import Settings, networks_of

NAME = "kubeconfig"
IN_CLUSTER_NAMES = frozenset({"kubernetes", "kubernetes.default", "kubernetes.default.svc"})


class KubeconfigProvider:
    """An infra cluster that a kubeconfig leads to.

    given: variables of the playbooks that the user says its machines need.
    """

    name = NAME

    def __init__(
        self,
        infra: Infra,
        mirror: Mirror,
        use: Use | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._given = given or {}
        self._use = use or Use()
        self._infra = infra
        self._mirror = mirror

    def up(self) -> None:
        """Look whether the cluster has everything; make nothing.

        Raises:
            BadInput: it lacks something (all of it at once).
        """
        raise_if_any(check_cluster(self._infra, self._use))

    def down(self) -> None:
        """Leave the cluster as it is: it is not ours. What runs left in it is reaped by label."""

    def kubeconfig(self) -> Path:
        """Return the kubeconfig that was given."""
        return self._infra.kubeconfig

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
        return guest_vars.variables(self._cluster(), self._given, self._use.outer)

    def spare_addresses(self, _: str) -> tuple[str, ...]:
        """Return nothing: who gives out addresses here is not known."""
        return ()

    def mirror(self) -> Mirror:
        """Return the mirror that was given."""
        return self._mirror

    def deliveries(self) -> str:
        """Return nothing: which registry pods may push to is not known."""
        return ""

    def pulls(self) -> str:
        """Return nothing, as there is nothing to pull from."""
        return ""

    def describe(self) -> Mapping[str, Any]:
        """Return the API's address and version."""
        cluster = self._cluster()
        return {
            "provider": self.name,
            "server": cluster.server,
            "kubernetes": cluster.version(),
            "kubeconfig": str(self._infra.kubeconfig),
        }

    def _cluster(self) -> Cluster:
        return self._infra.open()


def within(server: str, environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether a server's URL is that of the API of the cluster in which this process is a pod.

    Args:
        environment: variables; those of this process without it. A kubelet gives every pod the API's address in them:
            https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    """
    own = (os.environ if environment is None else environment).get("KUBERNETES_SERVICE_HOST", "")
    return bool(own) and urlsplit(server).hostname in {own.strip("[]"), *IN_CLUSTER_NAMES}


class KubeconfigDefinition(Definition):
    """Provider `kubeconfig`."""

    name = NAME
    needed = ("kubeconfig", "mirror_http", "registry")  # settings; the first one not in a pod

    def open(self, opening: Opening) -> KubeconfigProvider:
        """Return the cluster that the settings lead to."""
        settings = opening.settings
        self._refuse_missing(settings)
        mirror = Mirror(http=str(settings.mirror_http), registry=str(settings.registry))
        of_user = guest_vars.read_vars(settings.guest_vars)
        return KubeconfigProvider(self.infra(settings), mirror, use_of(settings, opening.product), of_user)

    def infra(self, settings: Settings) -> Infra:
        """Return kubeconfig and context of the settings; in a pod, without a kubeconfig there, its service account's.

        Raises:
            BadInput: there is none.
        """
        path = settings.kubeconfig or _service_account()
        if path is None:
            hint = "pass --kubeconfig PATH or set it in vmatrix.yml"
            raise BadInput("provider kubeconfig needs a kubeconfig", hint=hint)
        return Infra(path, settings.context)

    def options(self, settings: Settings) -> list[str]:
        """Return the options that name the same infra cluster to another vmatrix command."""
        infra = self.infra(settings)
        values = {"--kubeconfig": infra.kubeconfig, "--context": infra.context, "--namespace": settings.namespace}
        words = (word for option, value in values.items() if value is not None for word in (option, str(value)))
        return ["--provider", self.name, *words]

    def refuse_unusable(self, settings: Settings) -> None:
        """Refuse settings that cannot lead to a cluster."""
        self.open(Opening(settings))
        self.infra(settings).open()

    def first_look(self, opening: Opening) -> list[Finding]:
        """Look at the cluster."""
        return check_cluster(self.infra(opening.settings), use_of(opening.settings, opening.product))

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at the cluster."""
        infra = self.infra(settings)
        return f"the cluster of {infra.kubeconfig}", check_cluster(infra, use())

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
        networks=guest_vars.networks(product, guest_vars.read_vars(settings.guest_vars)),
        outer=networks_of(settings.outer_networks),
        bridged=settings.binding == "bridge",
        isolated=settings.network_policy,
        trial=trial,
    )


def _service_account() -> Path | None:
    """Return a kubeconfig of the service account of the pod that this process runs in, None outside of one."""
    return in_cluster_kubeconfig(paths.state_dir() / "in-cluster.kubeconfig", os.environ)


PROVIDER = KubeconfigDefinition()
