"""The network of a declared cluster, and where its machines get binaries and images from."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, mapped, part, unchanged

Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$", max_length=43)]
Domain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253)
]
MirrorUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(/\S*)?$", max_length=1024)]
Registry = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.\[\]:_-]+(/[a-z0-9._/-]+)?$", max_length=255)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]


def network_of(text: str) -> IPv4Network | IPv6Network | None:
    """Read a network in CIDR notation, None when it is none, or one in a form that the API server does not read."""
    try:
        found = ip_network(text)
    except ValueError:
        return None
    mapped_to_4 = isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None
    return None if mapped_to_4 or re.search("/0[0-9]", text) else found


def _apart(network: ClusterNetwork) -> bool:
    pods, services = network_of(network.pods), network_of(network.services)
    return pods is None or services is None or not pods.overlaps(services)


IS_NETWORK = "isCIDR(self.{0}) && cidr(self.{0}).masked() == cidr(self.{0})"
OVERLAP = Cel(
    f"!({IS_NETWORK.format('pods')}) || !({IS_NETWORK.format('services')}) || "
    "!(cidr(self.pods).containsCIDR(cidr(self.services)) || cidr(self.services).containsCIDR(cidr(self.pods)))",
    "the networks of pods and services overlap",
    "choose two networks that have no address in common",
    ".services",
    holds=_apart,
)


def _is_network(field: str, example: str) -> Cel:
    return Cel(
        IS_NETWORK.format(field),
        "not a network in CIDR notation",
        f"write one such as {example}",
        f".{field}",
        holds=lambda network: network_of(getattr(network, field)) is not None,
    )


NO_MIRROR = Cel(
    "self.type != 'Mirror' || has(self.mirror)",
    "type Mirror needs mirror",
    "set it to the URL below which the mirror serves bin/NAME/VERSION/FILE",
    ".mirror",
    holds=lambda source: source.type != "Mirror" or source.mirror is not None,
)
NO_REGISTRY = Cel(
    "has(self.registry)",
    "machines need a registry, with either type",
    "set it to HOST:PORT, with a path if there is one, below which the images are",
    ".registry",
    holds=lambda source: source.registry is not None,
)


class Vxlan(ApiModel):
    """How flannel wraps packets between machines."""

    port: int = Field(default=8472, ge=1, le=65535, description="UDP port; change it if machines use VXLAN themselves.")
    mtu: int = Field(default=0, ge=0, le=65535, description="MTU; 0: that of the machine's interface, less the header.")


class ClusterNetwork(ApiModel):
    """Addresses and names inside of the cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (
        _is_network("pods", "10.243.0.0/16"),
        _is_network("services", "10.95.0.0/16"),
        OVERLAP,
        *(unchanged(f".{name}") for name in ("plugin", "pods", "services", "dnsDomain")),
    )
    # As in playbooks/group_vars/all/network_plugins.yml.
    plugin: Literal["flannel", "routes"] = Field(default="flannel", description="Network plugin; cannot change.")
    pods: Cidr = Field(default="10.243.0.0/16", description="Network of the pods, in CIDR notation; cannot change.")
    services: Cidr = Field(
        default="10.95.0.0/16", description="Network of the Services, in CIDR notation; cannot change."
    )
    dns_domain: Domain = Field(default="cluster.local", description="Domain of Services; cannot change.")
    vxlan: Vxlan = part(Vxlan, "How flannel wraps packets between machines.")


class ArtifactSource(ApiModel):
    """Where machines get binaries and images from."""

    cel: ClassVar[tuple[Cel, ...]] = (NO_MIRROR, NO_REGISTRY)
    type: Literal["Mirror", "Upstream"] = Field(
        default="Mirror", description="Mirror: only from the mirror; Upstream: binaries from the makers' sites."
    )
    mirror: MirrorUrl | None = Field(
        default=None, description="URL of the mirror of binaries; required for type Mirror."
    )
    registry: Registry | None = Field(
        default=None, description="HOST:PORT of the registry of images, with a path if there is one; required."
    )
    checksums: dict[str, Sha256] = mapped("SHA-256 of files on the mirror, by NAME/VERSION.", max_length=200)


class ApiBalancer(ApiModel):
    """What stands in front of the API servers."""

    cel: ClassVar[tuple[Cel, ...]] = (unchanged(".type"),)
    type: Literal["Local", "Service"] = Field(
        default="Local", description="Service: also a Service CLUSTER-api in the namespace; cannot change."
    )


def service_name(cluster: str) -> str:
    """Return the name of a cluster's Service and of its EndpointSlice."""
    return f"{cluster}-api"


def service_names(cluster: str, namespace: str) -> list[str]:
    """Return the names of a cluster's API in its infra cluster, which its certificate has to have, the fullest last."""
    name = service_name(cluster)
    return [name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]
