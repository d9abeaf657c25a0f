"""The network of a declared cluster, and where its machines get binaries and images from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.operator.api.base import ApiModel, Cel, part, unchanged

NETWORK_PLUGINS = ("flannel", "routes")  # playbooks/group_vars/all/network_plugins.yml
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$", max_length=43)]
Domain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253)
]
MirrorUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(/\S*)?$", max_length=1024)]
Registry = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.\[\]:_-]+(/[a-z0-9._/-]+)?$", max_length=255)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]

NOT_A_NETWORK = "not a network in CIDR notation"
IS_NETWORK = "isCIDR(self.{0}) && cidr(self.{0}).masked() == cidr(self.{0})"
OVERLAP = Cel(
    f"!({IS_NETWORK.format('pods')}) || !({IS_NETWORK.format('services')}) || "
    "!(cidr(self.pods).containsCIDR(cidr(self.services)) || cidr(self.services).containsCIDR(cidr(self.pods)))",
    "the networks of pods and services overlap",
    "choose two networks that have no address in common",
    ".services",
)
PODS_CIDR, SERVICES_CIDR = (
    Cel(
        IS_NETWORK.format(field),
        NOT_A_NETWORK,
        f"write one such as {example}",
        f".{field}",
    )
    for field, example in (("pods", "10.243.0.0/16"), ("services", "10.95.0.0/16"))
)
NO_MIRROR = Cel(
    "self.type != 'Mirror' || has(self.mirror)",
    "type Mirror needs mirror",
    "set it to the URL below which the mirror serves bin/NAME/VERSION/FILE",
    ".mirror",
)
NO_REGISTRY = Cel(
    "has(self.registry)",
    "machines need a registry, with either type",
    "set it to HOST:PORT, with a path if there is one, below which the images are",
    ".registry",
)


class Vxlan(ApiModel):
    """How flannel wraps packets between machines."""

    port: int = Field(default=8472, ge=1, le=65535, description="UDP port; change it if machines use VXLAN themselves.")
    mtu: int = Field(default=0, ge=0, le=65535, description="MTU; 0: that of the machine's interface, less the header.")


class ClusterNetwork(ApiModel):
    """Addresses and names inside of the cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (
        PODS_CIDR,
        SERVICES_CIDR,
        OVERLAP,
        *(unchanged(f".{name}") for name in ("plugin", "pods", "services", "dnsDomain")),
    )
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
    checksums: dict[str, Sha256] = Field(
        default_factory=dict,
        max_length=200,
        description="SHA-256 of files on the mirror, by NAME/VERSION.",
        json_schema_extra={"default": {}},
    )
