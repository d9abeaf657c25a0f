"""Networks of clusters: the fields of a ClusterDeployment; and ClusterNetworkPool, from which clusters get theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import combinations, product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from harness.kube.kinds.models import ANEW, ApiModel, Cel, ObjectModel, StatusModel, listed, part, unchanged
from harness.operator.api.components import switch
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.resources import Line, ObjectName

Network = IPv4Network | IPv6Network
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$", max_length=43)]
# As MetalLB takes them: a network, or the first and the last address.
AddressRange = Annotated[
    str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]+(/[0-9]{1,3}|\s*-\s*[0-9A-Fa-f.:]+)$", max_length=100)
]
HOST = r"^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)?$"  # a name, an address, or nothing
MOST_BITS = 16  # between a range and its parts: a pool of 65536 clusters, all of which are looked at
HIGHEST_VNI = (1 << 24) - 1  # RFC 7348: a VXLAN network identifier has 24 bits
HIGHEST_PORT = 65535


DOMAIN, DOMAIN_LENGTH = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", 253
Domain = Annotated[str, StringConstraints(pattern=DOMAIN, max_length=DOMAIN_LENGTH)]


def is_domain(text: str) -> bool:
    """Tell whether a text is a name as DNS and certificates have them, in lower case."""
    return len(text) <= DOMAIN_LENGTH and re.fullmatch(DOMAIN, text) is not None


def network_of(text: str | None) -> IPv4Network | IPv6Network | None:
    """Read a network in CIDR notation, None when it is none, or one in a form that the API server does not read."""
    if text is None:
        return None
    try:
        network = ip_network(text)
    except ValueError:
        return None
    mapped_to_4 = isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None
    return None if mapped_to_4 or re.search("/0[0-9]", text) else network


def is_range(text: str) -> bool:
    """Tell whether a text is a network, or two addresses of one IP family with the lower one first."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        lowest, highest = (ip_address(first), ip_address(last)) if dash else (None, None)
    except ValueError:
        return False
    if lowest is None or highest is None:
        return network_of(text) is not None
    return lowest.version == highest.version and int(lowest) <= int(highest)


def ip_version(text: str) -> int:
    """Return the version of an IP address, 0 for a text that is none, or one that the API server does not read."""
    try:
        address = ip_address(text)
    except ValueError:
        return 0
    foreign = isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address.scope_id is not None)
    return 0 if foreign else address.version


IpFamily = Literal["IPv4", "IPv6"]
IPV4: IpFamily = "IPv4"
IPV6: IpFamily = "IPv6"
VERSIONS: Mapping[IpFamily, int] = {IPV4: 4, IPV6: 6}

PLACES = ("pods", "services", "ipv6Pods", "ipv6Services")


def _apart(network: ClusterNetwork) -> bool:
    known = [parsed for text in network.by_field.values() if (parsed := network_of(text)) is not None]
    return not any(first.overlaps(second) for first, second in combinations(known, 2))


IS_NETWORK = "isCIDR(self.{0}) && cidr(self.{0}).masked() == cidr(self.{0})"


def _overlap(field: str, other: str) -> str:
    """Return the condition in CEL that two networks are apart, or not both there and networks."""
    return (
        f"!has(self.{field}) || !has(self.{other}) || "
        f"!({IS_NETWORK.format(field)}) || !({IS_NETWORK.format(other)}) || "
        f"!(cidr(self.{field}).containsCIDR(cidr(self.{other})) || cidr(self.{other}).containsCIDR(cidr(self.{field})))"
    )


OVERLAP = Cel(
    " && ".join(f"({_overlap(field, other)})" for field, other in combinations(PLACES, 2)),
    "the networks of pods and services overlap",
    "choose networks that have no address in common",
    ".services",
    holds=_apart,
)


def _is_network(field: str, example: str) -> Cel:
    return Cel(
        f"!has(self.{field}) || ({IS_NETWORK.format(field)})",
        "not a network in CIDR notation",
        f"write one such as {example}",
        f".{field}",
        holds=lambda network: network.by_field[field] is None or network_of(network.by_field[field]) is not None,
    )


class Vxlan(ApiModel):
    """How flannel wraps packets between machines."""

    port: int | None = Field(
        default=None,
        ge=1,
        le=HIGHEST_PORT,
        description="UDP port; default: that of the pool, or 8472. Change it if machines use VXLAN themselves.",
    )
    vni: int | None = Field(
        default=None, ge=1, le=HIGHEST_VNI, description="VXLAN number; default: that of the pool, or 1; cannot change."
    )
    mtu: int = Field(default=0, ge=0, le=65535, description="MTU; 0: that of the machine's interface, less the header.")


# As in playbooks/group_vars/all/main.yml, and as matrix/axes.yml has those of IPv6.
DEFAULT_NETWORKS = {"pods": "10.243.0.0/16", "services": "10.95.0.0/16"}
IPV6_NETWORKS = {"pods": "fd10:243::/56", "services": "fd10:95::/112"}
SECOND_NETWORKS = {"ipv6Pods": IPV6_NETWORKS["pods"], "ipv6Services": IPV6_NETWORKS["services"]}
DEFAULT_PORT = 8472
FAMILIES_IN_ORDER = Cel(
    f"!has(self.ipFamilies) || self.ipFamilies.size() == 1 || self.ipFamilies[0] == '{IPV4}'",  # == knows no order
    "a cluster of both IP families has IPv4 first",
    f"write [{IPV4}, {IPV6}], or one of them",
    ".ipFamilies",
    holds=lambda network: network.ip_families in (None, (IPV4,), (IPV6,), (IPV4, IPV6)),
)
OF_BOTH = f"(has(self.ipFamilies) ? '{IPV4}' in self.ipFamilies && '{IPV6}' in self.ipFamilies : true)"
SECOND_ALONE = Cel(
    f"{OF_BOTH} || !(has(self.ipv6Pods) || has(self.ipv6Services))",
    "a cluster of one IP family has no second networks",
    f"remove ipv6Pods and ipv6Services, or set ipFamilies to [{IPV4}, {IPV6}]",
    ".ipFamilies",
    holds=lambda network: (
        network.ip_families is None
        or {IPV4, IPV6} <= set(network.ip_families)
        or (network.ipv6_pods is None and network.ipv6_services is None)
    ),
)


def _of_family(field: str, condition: str, family: IpFamily, other: str) -> Cel:
    """Return the rule that a network is of the family that the cluster has by `ipFamilies`."""
    version = VERSIONS[family]
    return Cel(
        f"!({condition}) || !has(self.{field}) || !({IS_NETWORK.format(field)}) || "
        f"cidr(self.{field}).ip().family() == {version}",
        f"the network is not of {family}",
        f"write one such as {other}",
        f".{field}",
        holds=lambda network: (
            (parsed := network_of(network.by_field[field])) is None
            or family not in network.families_of(field)
            or parsed.version == version
        ),
    )


FIRST_IS_4 = f"has(self.ipFamilies) ? self.ipFamilies[0] == '{IPV4}' : has(self.ipv6Pods) || has(self.ipv6Services)"
FIRST_IS_6 = f"has(self.ipFamilies) && self.ipFamilies[0] == '{IPV6}'"


def _same(field: str) -> Cel:
    """Return the rule that a network stays: a field that is not there has its default, or what the pool gives."""
    of_6 = "has({0}.ipFamilies) && {0}.ipFamilies == ['IPv6']"
    first = f"({of_6} ? '{IPV6_NETWORKS.get(field)}' : '{DEFAULT_NETWORKS.get(field)}')"
    second = f"(has({{0}}.ipFamilies) && {{0}}.ipFamilies.size() == 2 ? '{SECOND_NETWORKS.get(field)}' : '')"
    otherwise = first if field in DEFAULT_NETWORKS else second
    told = f"(has({{0}}.{field}) ? {{0}}.{field} : has({{0}}.pool) ? '' : {otherwise})"
    before, after = (told.format(who) for who in ("oldSelf", "self"))
    return Cel(f"{after} == {before}", f"{field} cannot change", ANEW, f".{field}")


SAME_FAMILIES = Cel(
    "!has(self.pool) || "
    "(has(self.ipFamilies) ? self.ipFamilies : []) == (has(oldSelf.ipFamilies) ? oldSelf.ipFamilies : [])",
    "ipFamilies cannot change",
    ANEW,
    ".ipFamilies",
)
SAME_POOL = Cel(
    "!has(oldSelf.pool) || (has(self.pool) && self.pool == oldSelf.pool)", "pool cannot change", ANEW, ".pool"
)


class IngressSettings(ApiModel):
    """What the add-on traefik makes of Ingresses."""

    default_class: bool | None = switch("Ingresses that name no class are its own")
    address: Annotated[str, StringConstraints(pattern=HOST, max_length=253)] | None = Field(
        default=None, description="What the status of Ingresses shows, '' for nothing; default: the first worker's."
    )


class ClusterNetwork(ApiModel):
    """Addresses and names inside of the cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(_is_network(field, network) for field, network in (DEFAULT_NETWORKS | SECOND_NETWORKS).items()),
        *(_of_family(field, FIRST_IS_4, IPV4, network) for field, network in DEFAULT_NETWORKS.items()),
        *(_of_family(field, FIRST_IS_6, IPV6, network) for field, network in IPV6_NETWORKS.items()),
        *(_of_family(field, "true", IPV6, network) for field, network in SECOND_NETWORKS.items()),
        FAMILIES_IN_ORDER,
        SECOND_ALONE,
        OVERLAP,
        *(unchanged(f".{name}") for name in ("plugin", "dnsDomain")),
        *(_same(field) for field in PLACES),
        SAME_FAMILIES,
        SAME_POOL,
    )
    # As in playbooks/group_vars/all/network_plugins.yml.
    plugin: Literal["flannel", "routes"] = Field(default="flannel", description="Network plugin; cannot change.")
    ip_families: tuple[IpFamily, ...] | None = listed(
        "IP families, IPv4 first; default: those of the networks; cannot change.",
        default=None,
        min_length=1,
        max_length=2,
    )
    pool: ObjectName | None = Field(
        default=None, description="ClusterNetworkPool that gives the networks which are not set; cannot change."
    )
    pods: Cidr | None = Field(
        default=None, description="Network of the pods; default: that of the pool, or 10.243.0.0/16; cannot change."
    )
    services: Cidr | None = Field(
        default=None, description="Network of the Services; default: that of the pool, or 10.95.0.0/16; cannot change."
    )
    ipv6_pods: Cidr | None = Field(
        default=None,
        alias="ipv6Pods",
        description="Second network of the pods; default: that of the pool, or fd10:243::/56; cannot change.",
    )
    ipv6_services: Cidr | None = Field(
        default=None,
        alias="ipv6Services",
        description="Second network of the Services; default: that of the pool, or fd10:95::/112; cannot change.",
    )
    dns_domain: Domain = Field(default="cluster.local", description="Domain of Services; cannot change.")
    vxlan: Vxlan = part(Vxlan, "How flannel wraps packets between machines.")
    ingress: IngressSettings = part(IngressSettings, "What the add-on traefik makes of Ingresses.")
    load_balancer_addresses: tuple[AddressRange, ...] | None = listed(
        "Addresses that the add-on metallb gives to Services: ranges or networks.",
        default=None,
        min_length=1,
        max_length=50,
    )

    @property
    def by_field(self) -> dict[str, str | None]:
        """Return the networks by the names of their fields."""
        return dict(zip(PLACES, (self.pods, self.services, self.ipv6_pods, self.ipv6_services), strict=True))

    @property
    def families(self) -> tuple[IpFamily, ...]:
        """Return the IP families of the cluster's networks, its first one first; none while it has no network."""
        if self.ip_families is not None:
            return self.ip_families
        first, second = network_of(self.pods) or network_of(self.services), self.ipv6_pods or self.ipv6_services
        if second is not None:
            return (IPV4, IPV6)
        return (
            () if first is None else tuple(family for family, version in VERSIONS.items() if version == first.version)
        )

    def families_of(self, field: str) -> tuple[IpFamily, ...]:
        """Return the family that a network of a field has to be of, none where either one will do."""
        if field in SECOND_NETWORKS:
            return (IPV6,)
        if self.ip_families is None and self.ipv6_pods is None and self.ipv6_services is None:
            return ()
        return self.families[:1]

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, fields: Any) -> Any:
        """Give a network without a pool the defaults of the playbooks."""
        if not isinstance(fields, Mapping) or fields.get("pool") is not None:
            return fields
        families = fields.get("ipFamilies", fields.get("ip_families"))
        own = list(families) if isinstance(families, list | tuple) else []
        made: dict[str, Any] = dict(IPV6_NETWORKS if own == [IPV6] else DEFAULT_NETWORKS)
        made |= SECOND_NETWORKS if len(own) > 1 else {}
        names = {"ipv6_pods": "ipv6Pods", "ipv6_services": "ipv6Services"}
        made |= {names.get(str(name), str(name)): value for name, value in fields.items() if value is not None}
        vxlan = made.get("vxlan", {})
        return {**made, "vxlan": {"port": DEFAULT_PORT, **vxlan} if isinstance(vxlan, Mapping) else vxlan}


PARTS = Cel(
    "isCIDR(self.cidr) && cidr(self.cidr).masked() == cidr(self.cidr) && "
    f"self.prefix >= cidr(self.cidr).prefixLength() && self.prefix - cidr(self.cidr).prefixLength() <= {MOST_BITS} && "
    "self.prefix <= (cidr(self.cidr).ip().family() == 4 ? 30 : 126)",
    "not a network in CIDR notation with parts of this size",
    f"write a network without host bits, and a prefix that is at most {MOST_BITS} bits longer",
    ".cidr",
    holds=lambda network_range: network_range.network is not None,
)


class NetworkRange(ApiModel):
    """A network that is divided into equal parts, one for each cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (PARTS,)
    cidr: Cidr = Field(description="The whole network, in CIDR notation.")
    prefix: int = Field(ge=8, le=126, description="Length of the prefix of each cluster's part.")

    @property
    def network(self) -> Network | None:
        """Return the whole network, None where it cannot be divided in this way."""
        whole = network_of(self.cidr)
        if whole is None:
            return None
        longest = 30 if whole.version == 4 else 126
        fits = whole.prefixlen <= self.prefix <= min(longest, whole.prefixlen + MOST_BITS)
        return whole if fits else None

    def parts(self) -> Iterator[Network]:
        """Yield the clusters' parts, from the lowest address upwards."""
        whole = self.network
        if whole is not None:
            yield from whole.subnets(new_prefix=self.prefix)


ENDS_AFTER_IT_BEGINS = Cel(
    "self.first <= self.last",
    "the range ends before it begins",
    "set last to first or more",
    ".last",
    holds=lambda numbers: numbers.first <= numbers.last,
)


class NumberRange(ApiModel):
    """Numbers, both ends included."""

    cel: ClassVar[tuple[Cel, ...]] = (ENDS_AFTER_IT_BEGINS,)
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

    cel: ClassVar[tuple[Cel, ...]] = (PORTS,)
    vnis: NumberRange = Field(description="VXLAN numbers, one for each cluster.")
    ports: NumberRange | None = Field(
        default=None, description="UDP ports, one for each cluster; default: 8472 for all."
    )


def _separate(spec: ClusterNetworkPoolSpec) -> bool:
    pairs = ((a.network, b.network) for a, b in product(spec.pods, spec.services))
    return not any(a is not None and b is not None and a.overlaps(b) for a, b in pairs)


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
    pods: tuple[NetworkRange, ...] = listed(
        "Ranges for pods, of either IP family.", key="cidr", min_length=1, max_length=8
    )
    services: tuple[NetworkRange, ...] = listed(
        "Ranges for Services, of either IP family.", key="cidr", min_length=1, max_length=8
    )
    vxlan: PoolVxlan = Field(description="VXLAN numbers and ports.")

    @property
    def families(self) -> tuple[IpFamily, ...]:
        """Return the IP families of which it has ranges both for pods and for Services, IPv4 first."""
        versions = [
            {network_range.network.version for network_range in ranges if network_range.network}
            for ranges in (self.pods, self.services)
        ]
        return tuple(
            family
            for family, version in VERSIONS.items()
            if all(version in versions_of_range for versions_of_range in versions)
        )


class PoolAllocation(StatusModel):
    """What one cluster has of a pool."""

    uid: Line = Field(description="UID of the ClusterDeployment.")
    namespace: ObjectName = Field(description="Namespace of the ClusterDeployment.")
    cluster: ObjectName = Field(description="Name of the ClusterDeployment.")
    pods: Cidr = Field(description="Network of its pods.")
    services: Cidr = Field(description="Network of its Services.")
    ipv6_pods: Cidr | None = Field(default=None, alias="ipv6Pods", description="Second network of its pods.")
    ipv6_services: Cidr | None = Field(
        default=None, alias="ipv6Services", description="Second network of its Services."
    )
    vni: int = Field(description="VXLAN number.")
    port: int = Field(description="UDP port of VXLAN.")

    @property
    def by_field(self) -> dict[str, str | None]:
        """Return the networks by the names of their fields."""
        return dict(zip(PLACES, (self.pods, self.services, self.ipv6_pods, self.ipv6_services), strict=True))


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
