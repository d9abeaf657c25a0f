"""Isolation of a cluster's machines: who else reaches them, and whom else they reach, in the shapes of NetworkPolicy.

https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/network-policy-v1/
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, StatusModel, mapped
from harness.operator.api.networks import HIGHEST_PORT, IS_NETWORK, Cidr, Network, network_of
from harness.operator.api.resources import GROUP, LabelValue, Line
from harness.operator.api.sets import MarkKey

# Of pods in the cluster's namespace that may connect to its API; the value is the cluster's name.
API_CLIENT_LABEL = f"{GROUP}/api-client"
ATOMIC: dict[str, JsonValue] = {"x-kubernetes-list-type": "atomic"}  # nothing in an item names it
WITH_VALUES = ("In", "NotIn")
Operator = Annotated[str, StringConstraints(pattern="^(In|NotIn|Exists|DoesNotExist)$", max_length=12)]


class LabelRequirement(ApiModel):
    """One requirement of labels."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "(self.operator in ['In', 'NotIn']) == (self.values.size() > 0)",
            "In and NotIn need values, and the others have none",
            "add values, or remove them",
            ".values",
            holds=lambda expression: (expression.operator in WITH_VALUES) == bool(expression.values),
        ),
    )
    key: MarkKey = Field(description="Key of the label.")
    operator: Operator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: tuple[LabelValue, ...] = Field(
        default=(), max_length=50, json_schema_extra={**ATOMIC, "default": []}, description="Values, for In and NotIn."
    )


class LabelSelector(ApiModel):
    """Chooses by labels; an empty one chooses all."""

    match_labels: dict[str, LabelValue] = mapped("Labels with their values.", max_length=20)
    match_expressions: tuple[LabelRequirement, ...] = Field(
        default=(),
        max_length=20,
        json_schema_extra={**ATOMIC, "default": []},
        description="Further requirements.",
    )

    def plain(self) -> dict[str, Any]:
        """Return it as the API server stores it: without what is empty."""
        rules = [
            {
                "key": expression.key,
                "operator": expression.operator,
                **({"values": list(expression.values)} if expression.values else {}),
            }
            for expression in self.match_expressions
        ]
        labels = {"matchLabels": dict(self.match_labels)} if self.match_labels else {}
        return {**labels, **({"matchExpressions": rules} if rules else {})}


def _inside(block: AddressBlock) -> bool:
    whole = network_of(block.cidr)
    parts = [network_of(text) for text in block.left_out]
    return whole is None or all(part is None or _strictly_within(part, whole) for part in parts)


def _strictly_within(part: Network, whole: Network) -> bool:
    return part.prefixlen > whole.prefixlen and part.version == whole.version and part.overlaps(whole)


NOT_A_NETWORK = "not a network in CIDR notation"
AN_EXAMPLE = "write one without host bits, such as 192.0.2.0/24"


class AddressBlock(ApiModel):
    """Addresses of a network."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            IS_NETWORK.format("cidr"),
            NOT_A_NETWORK,
            AN_EXAMPLE,
            ".cidr",
            holds=lambda block: network_of(block.cidr) is not None,
        ),
        Cel(
            "self.except.all(part, isCIDR(part) && cidr(part).masked() == cidr(part))",
            NOT_A_NETWORK,
            AN_EXAMPLE,
            ".except",
            holds=lambda block: all(network_of(part) is not None for part in block.left_out),
        ),
        Cel(
            f"!({IS_NETWORK.format('cidr')}) || self.except.all(part, !isCIDR(part) || "
            "(cidr(self.cidr).containsCIDR(cidr(part)) && "
            "cidr(part).prefixLength() > cidr(self.cidr).prefixLength()))",
            "what is left out is not a part of the network",
            "name parts of cidr that are smaller than it",
            ".except",
            holds=_inside,
        ),
    )
    cidr: Cidr = Field(description="The network, in CIDR notation.")
    left_out: tuple[Cidr, ...] = Field(
        default=(),
        alias="except",
        max_length=50,
        json_schema_extra={**ATOMIC, "default": []},
        description="Parts of the network that are left out.",
    )

    def plain(self) -> dict[str, Any]:
        """Return it as the API server stores it."""
        return {"cidr": self.cidr, **({"except": list(self.left_out)} if self.left_out else {})}


class AllowedPort(ApiModel):
    """A port, or a range of them."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "!has(self.endPort) || self.endPort >= self.port",
            "the range ends before it begins",
            "set endPort to port or more",
            ".endPort",
            holds=lambda ports: ports.end_port is None or ports.end_port >= ports.port,
        ),
    )
    protocol: Literal["TCP", "UDP", "SCTP"] = Field(default="TCP", description="Protocol.")
    port: int = Field(ge=1, le=HIGHEST_PORT, description="The port, or the first of them.")
    end_port: int | None = Field(default=None, ge=1, le=HIGHEST_PORT, description="The last of them.")


class NetworkPeer(ApiModel):
    """Pods or addresses, and the ports at which they are reached or reach machines."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
            "the peer names nobody",
            "set podSelector, namespaceSelector or ipBlock; {} of a selector chooses all",
            holds=lambda peer: any((peer.selects_pods, peer.ip_block is not None)),
        ),
        Cel(
            "!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",
            "a peer is either pods or addresses",
            "make two peers of it",
            ".ipBlock",
            holds=lambda peer: peer.ip_block is None or not peer.selects_pods,
        ),
    )
    pod_selector: LabelSelector | None = Field(
        default=None, description="Pods, of the cluster's namespace unless namespaceSelector chooses others."
    )
    namespace_selector: LabelSelector | None = Field(default=None, description="Namespaces of pods.")
    ip_block: AddressBlock | None = Field(default=None, description="Addresses that are not those of pods.")
    ports: tuple[AllowedPort, ...] = Field(
        default=(), max_length=50, json_schema_extra={**ATOMIC, "default": []}, description="Ports; none: all of them."
    )

    @property
    def selects_pods(self) -> bool:
        """Tell whether it chooses pods."""
        return self.pod_selector is not None or self.namespace_selector is not None

    def rule(self, direction: Literal["from", "to"]) -> dict[str, Any]:
        """Return it as a rule of a NetworkPolicy."""
        chosen = {
            "podSelector": self.pod_selector,
            "namespaceSelector": self.namespace_selector,
            "ipBlock": self.ip_block,
        }
        peer = {name: selector.plain() for name, selector in chosen.items() if selector is not None}
        ports = [port.model_dump(by_alias=True, exclude_none=True) for port in self.ports]
        return {direction: [peer], **({"ports": ports} if ports else {})}


def _peers(description: str) -> Any:
    return Field(default=(), max_length=50, json_schema_extra={**ATOMIC, "default": []}, description=description)


class NetworkIsolation(ApiModel):
    """A NetworkPolicy around the launcher pods of the cluster's machines."""

    enabled: bool = Field(
        default=False, description="Have a NetworkPolicy that lets in and out what the cluster needs, and what follows."
    )
    allow_from: tuple[NetworkPeer, ...] = _peers("Who else connects to machines.")
    allow_to: tuple[NetworkPeer, ...] = _peers("Whom else machines connect to.")


class IsolationState(StatusModel):
    """What is known of the NetworkPolicy around the machines."""

    ready: bool = Field(default=False, description="Whether the policy is as wanted.")
    reason: str = Field(default="", description="Why not, or whether it is enforced, as one word for programs.")
    message: Line = Field(default="", description="Why, for people.")
    enforced: bool | None = Field(
        default=None, description="Whether the infra cluster's network enforces it; no value: not known."
    )
    machines: tuple[Line, ...] = Field(
        default=(), max_length=5000, json_schema_extra=ATOMIC, description="Machines that the policy selects."
    )
    bare: tuple[Line, ...] = Field(
        default=(),
        max_length=5000,
        json_schema_extra=ATOMIC,
        description="Machines that no policy can select: they are addresses, without a VirtualMachineInstance.",
    )
