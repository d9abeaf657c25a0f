"""Endpoint of a cluster's API: its fields, which of them each type has, and the names that certificates need for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints
from pydantic.alias_generators import to_snake

from harness.kube.kinds.models import ApiModel, Cel, StatusModel, keys_match, mapped
from harness.operator.api.networks import HIGHEST_PORT, Domain, ip_version
from harness.operator.api.resources import Line, ObjectName

API_PORT = 6443  # of API servers
EndpointType = Literal["Local", "Service", "LoadBalancer", "Ingress", "Gateway", "VIP"]
LOCAL: EndpointType = "Local"
SERVICE_TYPE: EndpointType = "Service"
BALANCER: EndpointType = "LoadBalancer"
INGRESS_TYPE: EndpointType = "Ingress"
GATEWAY: EndpointType = "Gateway"
VIRTUAL: EndpointType = "VIP"


@dataclass(frozen=True)
class Allowed:
    """Types whose endpoint may have a field, and those whose endpoint must have it."""

    types: tuple[EndpointType, ...]
    required: tuple[EndpointType, ...] = ()
    example: str = ""


# Fields by the types that have them: rules of the definition, their twins and the page of the fields follow from it.
FIELDS: Mapping[str, Allowed] = {
    "host": Allowed((BALANCER, INGRESS_TYPE, GATEWAY, VIRTUAL), (INGRESS_TYPE, GATEWAY), "api.guest.example.com"),
    "address": Allowed((BALANCER, VIRTUAL), (VIRTUAL,), "192.0.2.50"),
    "port": Allowed((BALANCER, INGRESS_TYPE, GATEWAY)),
    "className": Allowed((BALANCER, INGRESS_TYPE)),
    "annotations": Allowed((SERVICE_TYPE, BALANCER, INGRESS_TYPE, GATEWAY)),
    "gatewayRef": Allowed((GATEWAY,), (GATEWAY,), "{name: NAME}"),
}
# Types with a Service in the infra cluster.
SERVED = (SERVICE_TYPE, BALANCER, INGRESS_TYPE, GATEWAY)
ANNOTATION = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


def _rules(field: str, known: Allowed) -> Iterator[Cel]:
    """Yield which types have a field, and which need it."""
    there = f"self.{field}.size() > 0" if field == "annotations" else f"has(self.{field})"
    attribute = to_snake(field)
    types, names = [f"'{type_name}'" for type_name in known.types], " or ".join(known.types)
    yield Cel(
        f"!({there}) || self.type in [{', '.join(types)}]",
        f"an endpoint of this type has no {field}",
        f"remove it, or set type to {names}",
        f".{field}",
        holds=lambda endpoint: not getattr(endpoint, attribute) or endpoint.type in known.types,
    )
    for needed in known.required:
        yield Cel(
            f"self.type != '{needed}' || {there}",
            f"an endpoint of type {needed} needs {field}",
            f"set it, such as {known.example}",
            f".{field}",
            holds=lambda endpoint, needed=needed: endpoint.type != needed or bool(getattr(endpoint, attribute)),  # type: ignore[misc]
        )


class GatewayRef(ApiModel):
    """A Gateway, and which of its listeners."""

    name: ObjectName = Field(description="Name of the Gateway.")
    namespace: ObjectName | None = Field(default=None, description="Its namespace; default: that of this object.")
    section_name: ObjectName | None = Field(
        default=None, description="Name of its listener; default: any that passes TLS through."
    )


ClassName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9./]*[a-z0-9])?$", max_length=253)]
Address = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]+$", max_length=45)]


class ApiEndpoint(ApiModel):
    """The way to the cluster's API."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(rule for field, known in FIELDS.items() for rule in _rules(field, known)),
        Cel(
            "!has(self.host) || !isIP(self.host)",
            "host is an address",
            "write a name, or set address instead",
            ".host",
            holds=lambda endpoint: not endpoint.host or not ip_version(endpoint.host),
        ),
        Cel(
            "!has(self.address) || isIP(self.address)",
            "not an IP address",
            "write one such as 192.0.2.50",
            ".address",
            holds=lambda endpoint: not endpoint.address or ip_version(endpoint.address) > 0,
        ),
        keys_match(".annotations", ANNOTATION, "a key is not one of annotations", "write one such as example.com/name"),
    )
    type: EndpointType = Field(default=LOCAL, description="Local: none but each control plane's own address.")
    host: Domain | None = Field(default=None, description="Name of the API, which leads to the endpoint.")
    address: Address | None = Field(
        default=None, description="VIP: address on the network of the control planes; LoadBalancer: the one to ask for."
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=HIGHEST_PORT,
        description="Port of the URL; default: 6443, of an Ingress 443, of a Gateway that of its listener.",
    )
    class_name: ClassName | None = Field(
        default=None, description="IngressClass, or class of load balancers; default: that of the infra cluster."
    )
    annotations: dict[str, Annotated[str, StringConstraints(max_length=4096)]] = mapped(
        "Annotations of the Service, Ingress or TLSRoute.", max_length=50
    )
    gateway_ref: GatewayRef | None = Field(default=None, description="Gateway that the TLSRoute is attached to.")


class EndpointState(StatusModel):
    """What is known of the endpoint."""

    type: str = Field(default=LOCAL, description="The type that this is about.")
    ready: bool | None = Field(default=None, description="Whether it leads to the API servers; no value: not known.")
    reason: str = Field(default="", description="Why, as one word for programs.")
    message: Line = Field(default="", description="Why, for people.")
    address: Line = Field(default="", description="The address or name that the infra cluster gave it.")
    port: int | None = Field(default=None, description="The port at which it is reached.")
    url: Line | None = Field(default=None, description="Its URL, once certificates of the API servers name it.")
    since: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}, description="Since when the reason is this one."
    )


def service_name(cluster: str) -> str:
    """Return the name of a cluster's Service, of its EndpointSlice, and of its Ingress or TLSRoute."""
    return f"{cluster}-api"


def service_names(cluster: str, namespace: str) -> list[str]:
    """Return the names of a cluster's API in its infra cluster, which its certificate has to have, the fullest last."""
    name = service_name(cluster)
    return [name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]


def api_names(endpoint: ApiEndpoint, cluster: str, namespace: str) -> list[str] | None:
    """Return the names that certificates of API servers need for an endpoint; None while they are not known."""
    inside = service_names(cluster, namespace) if endpoint.type in SERVED else []
    outside = [name for name in (endpoint.host, endpoint.address) if name]
    return None if endpoint.type == BALANCER and not outside else [*inside, *outside]


def api_url(endpoint: ApiEndpoint, cluster: str, namespace: str, port: int | None = None) -> str | None:
    """Return the URL of an endpoint, None for none, or while it is not known.

    Args:
        port: of a Gateway's listener.
    """
    host = endpoint.host or endpoint.address
    if endpoint.type == SERVICE_TYPE:
        host = service_names(cluster, namespace)[-1]
    usual = {INGRESS_TYPE: 443, GATEWAY: port or 443}.get(endpoint.type, API_PORT)
    return url_of(host, endpoint.port or usual) if host and endpoint.type != LOCAL else None


def url_of(host: str, port: int = API_PORT) -> str:
    """Return the URL of an API server at a name or an address."""
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"
