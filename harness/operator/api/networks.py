"""ClusterNetworkPool: ranges from which clusters on one network get pod and Service networks, and VXLAN numbers."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import product
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, listed
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.resources import Line, ObjectName

Network = IPv4Network | IPv6Network
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$", max_length=43)]
MOST_BITS = 16  # between a range and its parts: a pool of 65536 clusters, all of which are looked at
HIGHEST_VNI = (1 << 24) - 1  # RFC 7348: a VXLAN network identifier has 24 bits
HIGHEST_PORT = 65535


def _range(field: str) -> Cel:
    return Cel(
        f"self.{field}.first <= self.{field}.last",
        "the range ends before it begins",
        "set last to first or more",
        f".{field}",
        holds=lambda vxlan: getattr(vxlan, field) is None or getattr(vxlan, field).first <= getattr(vxlan, field).last,
    )


PARTS = Cel(
    "isCIDR(self.cidr) && cidr(self.cidr).masked() == cidr(self.cidr) && "
    f"self.prefix >= cidr(self.cidr).prefixLength() && self.prefix - cidr(self.cidr).prefixLength() <= {MOST_BITS} && "
    "self.prefix <= (cidr(self.cidr).ip().family() == 4 ? 30 : 126)",
    "not a network in CIDR notation with parts of this size",
    f"write a network without host bits, and a prefix that is at most {MOST_BITS} bits longer",
    ".cidr",
    holds=lambda one: one.network is not None,
)


class NetworkRange(ApiModel):
    """A network that is divided into equal parts, one for each cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (PARTS,)
    cidr: Cidr = Field(description="The whole network, in CIDR notation.")
    prefix: int = Field(ge=8, le=126, description="Length of the prefix of each cluster's part.")

    @property
    def network(self) -> Network | None:
        """Return the whole network, None where it cannot be divided in this way."""
        try:
            found = ip_network(self.cidr)
        except ValueError:
            return None
        longest = 30 if found.version == 4 else 126
        fits = found.prefixlen <= self.prefix <= min(longest, found.prefixlen + MOST_BITS)
        return found if fits else None

    def parts(self) -> Iterator[Network]:
        """Yield the clusters' parts, from the lowest address upwards."""
        whole = self.network
        if whole is not None:
            yield from whole.subnets(new_prefix=self.prefix)


class NumberRange(ApiModel):
    """Numbers, both ends included."""

    first: int = Field(ge=1, le=HIGHEST_VNI, description="The lowest.")
    last: int = Field(ge=1, le=HIGHEST_VNI, description="The highest.")


PORTS = Cel(
    f"!has(self.ports) || self.ports.last <= {HIGHEST_PORT}",
    "a port is too large",
    f"use {HIGHEST_PORT} or less",
    ".ports",
    holds=lambda vxlan: vxlan.ports is None or vxlan.ports.last <= HIGHEST_PORT,
)


class PoolVxlan(ApiModel):
    """VXLAN numbers and ports."""

    cel: ClassVar[tuple[Cel, ...]] = (_range("vnis"), PORTS)
    vnis: NumberRange = Field(description="VXLAN numbers, one for each cluster.")
    ports: NumberRange | None = Field(
        default=None, description="UDP ports, one for each cluster; default: 8472 for all."
    )


def _separate(spec: ClusterNetworkPoolSpec) -> bool:
    found = ((a.network, b.network) for a, b in product(spec.pods, spec.services))
    return not any(a is not None and b is not None and a.overlaps(b) for a, b in found)


class ClusterNetworkPoolSpec(ApiModel):
    """What clusters on one network share out among themselves."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "self.pods.all(a, self.services.all(b, !isCIDR(a.cidr) || !isCIDR(b.cidr) || "
            "!(cidr(a.cidr).containsCIDR(cidr(b.cidr)) || cidr(b.cidr).containsCIDR(cidr(a.cidr)))))",
            "a range for pods and one for Services have addresses in common",
            "choose ranges that are apart",
            ".services",
            holds=_separate,
        ),
    )
    pods: tuple[NetworkRange, ...] = listed("Ranges for pods.", key="cidr", min_length=1, max_length=8)
    services: tuple[NetworkRange, ...] = listed("Ranges for Services.", key="cidr", min_length=1, max_length=8)
    vxlan: PoolVxlan = Field(description="VXLAN numbers and ports.")


class PoolAllocation(StatusModel):
    """What one cluster has of a pool."""

    uid: Line = Field(description="UID of the ClusterDeployment.")
    namespace: ObjectName = Field(description="Namespace of the ClusterDeployment.")
    cluster: ObjectName = Field(description="Name of the ClusterDeployment.")
    pods: Cidr = Field(description="Network of its pods.")
    services: Cidr = Field(description="Network of its Services.")
    vni: int = Field(description="VXLAN number.")
    port: int = Field(description="UDP port of VXLAN.")


MOST_CLUSTERS = 2000  # an object of the API has at most 1.5 MiB; one of these takes some 300 bytes


class ClusterNetworkPoolStatus(StatusModel):
    """What is taken."""

    allocations: tuple[PoolAllocation, ...] = listed(
        "What clusters have, written before they use it.", key="uid", default=(), max_length=MOST_CLUSTERS
    )
    conditions: tuple[Condition, ...] = conditions("Whether another cluster would get something.")


class ClusterNetworkPool(ObjectModel):
    """Networks for clusters whose machines reach each other; no two of them get the same."""

    spec: ClusterNetworkPoolSpec = Field(description="What clusters share out among themselves.")
    status: ClusterNetworkPoolStatus = Field(default_factory=ClusterNetworkPoolStatus, description="What is taken.")
