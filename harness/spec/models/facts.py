"""The file of facts about a cluster that vmatrix did not make: what a cell would know, every key optional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, IPvAnyNetwork, JsonValue, StringConstraints

from harness.spec.base import KUBERNETES, REGISTRY, RELEASE, Group, GroupNames, Model, Text, Variable, Variables
from harness.spec.models.leaves import ClusterLeaves, ProductChecks

Release = Annotated[str, StringConstraints(pattern=RELEASE)]
Kubernetes = Annotated[str, StringConstraints(pattern=KUBERNETES)]
ENFORCES_POLICIES = "cluster_enforces_network_policies"  # set for products other than our playbooks
Registry = Annotated[str, StringConstraints(pattern=REGISTRY)]


class Facts(Model):
    """What a cluster must look like. What is not said is not judged, and is listed as such.

    kubernetes: its release, such as 1.36.3.
    container_runtime: containerd or cri-o.
    container_runtime_version: its release.
    runc, cni_plugins, etcd, coredns: the releases of these.
    network_plugin: its name, as in network_plugins.yml.
    network_plugin_version: its release.
    network_policies: whether the cluster enforces NetworkPolicies; if so, the suite `policies` runs, too.
    kube_proxy_mode: iptables, ipvs or nftables.
    pod_cidr, service_cidr: its networks.
    dns_domain: its domain.
    image_registry: HOST:PORT from which its own images come.
    test_registry: HOST:PORT that has the images of the upstream tests, such as agnhost, for probe pods.
    kubelet_config: settings of every kubelet, by dotted path.
    groups: the inventory's names of the groups, where they are not the usual ones.
    variables: further variables as playbooks of vmatrix have them.
    cluster: what its deployment leaves behind, as in product.yml.
    checks: which checks judge it, as in product.yml.
    """

    kubernetes: Kubernetes | None = None
    container_runtime: Text | None = None
    container_runtime_version: Release | None = None
    runc: Release | None = None
    cni_plugins: Release | None = None
    etcd: Release | None = None
    coredns: Release | None = None
    network_plugin: Text | None = None
    network_plugin_version: Release | None = None
    network_policies: bool | None = None
    kube_proxy_mode: Text | None = None
    pod_cidr: IPvAnyNetwork | None = None
    service_cidr: IPvAnyNetwork | None = None
    dns_domain: Text | None = None
    image_registry: Registry | None = None
    test_registry: Registry | None = None
    kubelet_config: dict[Text, JsonValue] | None = None
    groups: dict[Group, GroupNames] = Field(default_factory=dict)
    variables: Variables = Field(default_factory=dict)
    cluster: ClusterLeaves = ClusterLeaves.model_construct()
    checks: ProductChecks = ProductChecks.model_construct()

    def unsaid(self) -> list[str]:
        """Return the facts that are not given, in the order of the file."""
        return [name for name in type(self).model_fields if getattr(self, name) is None]

    def given(self, plugin_version: str | None = None) -> Mapping[str, Any]:
        """Return the variables that a cell with these values would have.

        Args:
            plugin_version: the variable of the network plugin's release; None where it has none.
        """
        runtime = self.container_runtime
        named: dict[Variable, Any] = {
            "cluster_kubernetes_version": self.kubernetes,
            "cluster_container_runtime": runtime,
            f"cluster_{runtime}_version": self.container_runtime_version if runtime else None,
            **{
                f"cluster_{component}_version": getattr(self, component)
                for component in ("runc", "cni_plugins", "etcd", "coredns")
            },
            "cluster_network_plugin": self.network_plugin,
            ENFORCES_POLICIES: self.network_policies,
            "cluster_kube_proxy_mode": self.kube_proxy_mode,
            "cluster_pod_cidr": self.pod_cidr and str(self.pod_cidr),
            "cluster_service_cidr": self.service_cidr and str(self.service_cidr),
            "cluster_dns_domain": self.dns_domain,
            "cluster_image_registry": self.image_registry,
            "cluster_kubelet_config": self.kubelet_config,
        }
        if plugin_version is not None:
            named[plugin_version] = self.network_plugin_version
        return {**{name: value for name, value in named.items() if value is not None}, **self.variables}


class FactsFile(Model):
    """What is known of a cluster that vmatrix did not make."""

    facts: Facts = Field(
        default=Facts.model_construct(), description="What the cluster must look like, every key optional."
    )
