"""Endpoint of a cluster's API: objects of the infra cluster that lead to it, what is wrong, what is waited for; pure.

The infra cluster's answer, such as the address of a load balancer, is in the Cluster's status. It stays there until
there is another one, so that certificates keep their names while a Service is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address
from typing import Any

from harness.kube.failures import Json
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import condition, dig, owner_reference, parse_time, stamp
from harness.kube.resources import ENDPOINT_SLICE, INGRESS, SERVICE, Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.endpoint import (
    API_PORT,
    BALANCER,
    GATEWAY,
    INGRESS_TYPE,
    LOCAL,
    SERVICE_TYPE,
    VIRTUAL,
    ApiEndpoint,
    EndpointState,
    api_names,
    service_name,
)
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.networks import VERSIONS, ip_version, is_domain, network_of
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, CLUSTER_LABEL, GROUP
from harness.operator.api.rules import API_NAMES, VIRTUAL_ADDRESS
from harness.operator.decide.due import Situation, Wait, WaitReason

PORT_NAME = "https"
SERVICE_LABEL = "kubernetes.io/service-name"  # which Service a slice belongs to
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"  # so that nobody else's controller touches it
OWN_ANNOTATIONS = f"{GROUP}/annotations"  # annotation: the keys of those that the endpoint's fields ask for
OWN_CLASS = f"{GROUP}/load-balancer-class"  # annotation: the class that the endpoint's fields ask for
WAIT_SECONDS = 120.0  # policy: a load balancer of a cloud takes a minute
DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
# By spec.controller of an IngressClass, or what that begins with: the annotations with which it passes TLS through.
PASSTHROUGH: Mapping[str, Mapping[str, str]] = {
    "k8s.io/ingress-nginx": {"nginx.ingress.kubernetes.io/ssl-passthrough": "true"},
    "haproxy.org/ingress-controller": {"haproxy.org/ssl-passthrough": "true"},
    "haproxy-ingress.github.io/controller": {"haproxy-ingress.github.io/ssl-passthrough": "true"},
    "openshift.io/ingress-to-route": {"route.openshift.io/termination": "passthrough"},
}
# Controllers whose Ingresses never pass TLS through: they have kinds of their own for that, or TLSRoutes.
ENDS_TLS = (
    *("traefik.io/ingress-controller", "nginx.org/ingress-controller", "projectcontour.io/ingress-controller"),
    *("istio.io/ingress-controller", "ingress.k8s.aws/alb", "ingress-controllers.konghq.com/kong"),
)


@dataclass(frozen=True)
class Backend:
    """A control plane. down: its node is known not to be ready; not knowing is not a reason to leave it out."""

    address: str
    down: bool = False


class EndpointReason(StrEnum):
    """Why an endpoint leads to the API or not; docs/operator/endpoint.md has them in this order."""

    WAITING_FOR_ADDRESS = "WaitingForAddress"
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    NO_LOAD_BALANCER = "NoLoadBalancer"
    OTHER_ADDRESS = "OtherAddress"
    NAME_NOT_USABLE = "NameNotUsable"
    NO_INGRESS_CLASS = "NoIngressClass"
    PASSTHROUGH_UNKNOWN = "PassthroughUnknown"
    NO_PASSTHROUGH = "NoPassthrough"
    NO_GATEWAY_API = "NoGatewayAPI"
    NO_GATEWAY = "NoGateway"
    ROUTE_REFUSED = "RouteRefused"
    NOT_SERVED = "NotServed"
    REFUSED = "Refused"
    NAME_IN_USE = "NameInUse"
    TAKEN = "Taken"
    REPLACED = "Replaced"
    NOT_YET = "NotYet"
    NOT_SIGNED = "NotSigned"
    ON_CONTROL_PLANES = "OnControlPlanes"
    LOCAL = "Local"
    READY = "Ready"


class EndpointRefused(ValueError):
    """The infra cluster lacks what an endpoint needs. reason: see there."""

    def __init__(self, reason: EndpointReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class EndpointSeen:
    """What is seen of an endpoint now.

    ready: None: not known.  address: that it was given, "" for none.  port: of a Gateway's listener.
    late: status, reason and message if that lasts longer than WAIT_SECONDS.
    """

    ready: bool | None
    reason: EndpointReason
    message: str
    address: str = ""
    port: int | None = None
    late: tuple[bool | None, EndpointReason, str] | None = None


def settled(before: EndpointState | None, kind: str, observed: EndpointSeen, moment: datetime) -> EndpointState:
    """Return what is known of an endpoint of a type from now on.

    Args:
        before: what was known.
    """
    same = before if before is not None and before.type == kind else None
    ready, reason, message = observed.ready, observed.reason, observed.message
    if observed.late is not None and same is not None and same.since is not None:
        waited = (moment - parse_time(same.since)).total_seconds()
        if same.reason == observed.late[1] or (same.reason == reason and waited >= WAIT_SECONDS):
            ready, reason, message = observed.late
    return EndpointState(
        type=kind,
        ready=ready,
        reason=str(reason),
        message=message,
        address=observed.address or (same.address if same is not None else ""),
        port=observed.port,
        url=same.url if same is not None else None,
        since=same.since if same is not None and same.since and same.reason == reason else stamp(moment),
    )


def labels_of_cluster(cluster: str) -> dict[str, str]:
    """Return the labels of what leads to a cluster's API."""
    return {CLUSTER_LABEL: cluster, LABEL_MANAGED: MANAGED_BY}


def service(deployment: Json, endpoint: ApiEndpoint) -> Json:
    """Return the Service; a value that is None is to be absent."""
    port = endpoint.port if endpoint.type == BALANCER and endpoint.port else API_PORT
    spec: dict[str, Any] = {
        "type": "LoadBalancer" if endpoint.type == BALANCER else "ClusterIP",
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP", "targetPort": API_PORT}],
        "loadBalancerIP": endpoint.address if endpoint.type == BALANCER else None,
    }
    own = endpoint.annotations if endpoint.type in (SERVICE_TYPE, BALANCER) else {}
    if endpoint.type == BALANCER and endpoint.class_name:
        spec["loadBalancerClass"] = endpoint.class_name
        own = {**own, OWN_CLASS: endpoint.class_name}
    return _made(deployment, SERVICE, own, spec=spec)


def endpoint_slice(deployment: Json, planes: Sequence[Backend]) -> Json:
    """Return the EndpointSlice of a cluster with these control planes.

    Where all are down all are asked, as on the machines: else a cluster that comes back stays cut off.
    """
    all_down = all(plane.down for plane in planes)
    endpoints = [
        {"addresses": [plane.address], "conditions": {"ready": all_down or not plane.down}}
        for plane in sorted(planes, key=lambda backend: backend.address)
    ]
    family = "IPv6" if any(":" in plane.address for plane in planes) else "IPv4"
    ports = [{"name": PORT_NAME, "port": API_PORT, "protocol": "TCP"}]
    made = _made(deployment, ENDPOINT_SLICE, {}, addressType=family, endpoints=endpoints, ports=ports)
    made["metadata"]["labels"] |= {SERVICE_LABEL: made["metadata"]["name"], MANAGER_LABEL: MANAGED_BY}
    return made


def ingress(deployment: Json, endpoint: ApiEndpoint, classes: Sequence[Json]) -> Json:
    """Return the Ingress.

    Args:
        classes: the IngressClasses of the infra cluster.

    Raises:
        EndpointRefused: there is no such class, or it is not known to pass TLS through.
    """
    chosen = _class_of(endpoint, classes)
    name, controller = chosen["metadata"]["name"], str(dig(chosen, "spec", "controller") or "")
    if any(_same(controller, controller_name) for controller_name in ENDS_TLS):
        raise EndpointRefused(
            EndpointReason.NO_PASSTHROUGH,
            f"IngressClass {name} ({controller}) ends TLS itself: name another class, or set type to {GATEWAY}",
        )
    known = next(
        (
            annotations_of
            for controller_name, annotations_of in PASSTHROUGH.items()
            if _same(controller, controller_name)
        ),
        None,
    )
    if known is None and not endpoint.annotations:
        raise EndpointRefused(
            EndpointReason.PASSTHROUGH_UNKNOWN,
            f"how IngressClass {name} ({controller}) passes TLS through is not known: "
            "set spec.endpoint.annotations to the annotations that ask for it",
        )
    backend = {"service": {"name": service_name(deployment["metadata"]["name"]), "port": {"number": API_PORT}}}
    paths = [{"pathType": "ImplementationSpecific", "backend": backend}]
    spec = {"ingressClassName": name, "rules": [{"host": endpoint.host, "http": {"paths": paths}}]}
    return _made(deployment, INGRESS, {**(known or {}), **endpoint.annotations}, spec=spec)


def _same(controller: str, known: str) -> bool:
    """Tell whether a controller is a known one; several of a kind have further words behind a slash."""
    return controller == known or controller.startswith(f"{known}/")


def _class_of(endpoint: ApiEndpoint, classes: Sequence[Json]) -> Json:
    names = ", ".join(sorted(candidate["metadata"]["name"] for candidate in classes)) or "none"
    if endpoint.class_name:
        chosen = next(
            (candidate for candidate in classes if candidate["metadata"]["name"] == endpoint.class_name), None
        )
        message = f"there is no IngressClass {endpoint.class_name}; there are: {names}"
    else:
        chosen = next(
            (candidate for candidate in classes if _annotations(candidate).get(DEFAULT_CLASS) == "true"), None
        )
        message = f"no IngressClass is the default; there are: {names}"
    if chosen is None:
        remedy = "set spec.endpoint.className" if classes else "install a controller of Ingresses"
        raise EndpointRefused(EndpointReason.NO_INGRESS_CLASS, f"{message}: {remedy}, or choose another type")
    return chosen


def listener_of(gateway: Json | None, endpoint: ApiEndpoint, namespace: str) -> Json:
    """Return the listener of a Gateway that passes TLS through.

    Raises:
        EndpointRefused: there is no such Gateway, or none of its listeners does.
    """
    ref = endpoint.gateway_ref
    where = f"Gateway {ref.namespace or namespace}/{ref.name}" if ref is not None else "the Gateway"
    if gateway is None or ref is None:
        raise EndpointRefused(
            EndpointReason.NO_GATEWAY, f"there is no {where}: create it, or correct spec.endpoint.gatewayRef"
        )
    listeners = dig(gateway, "spec", "listeners") or []
    for listener in listeners:
        passes = listener.get("protocol") == "TLS" and dig(listener, "tls", "mode") == "Passthrough"
        if passes and ref.section_name in (None, listener.get("name")):
            chosen: Json = listener
            return chosen
    which = f"listener {ref.section_name}" if ref.section_name else "any listener"
    raise EndpointRefused(
        EndpointReason.NO_PASSTHROUGH,
        f"{which} of {where} does not have protocol TLS and tls.mode Passthrough: add one that has",
    )


def tls_route(deployment: Json, endpoint: ApiEndpoint, kind: Resource) -> Json:
    """Return the TLSRoute. kind: as the infra cluster serves it."""
    ref = endpoint.gateway_ref
    parent = ref.model_dump(by_alias=True, exclude_none=True) if ref is not None else {}
    backend = {"name": service_name(deployment["metadata"]["name"]), "port": API_PORT}
    spec = {"parentRefs": [parent], "hostnames": [endpoint.host], "rules": [{"backendRefs": [backend]}]}
    return _made(deployment, kind, endpoint.annotations, spec=spec)


def _made(deployment: Json, kind: Resource, annotations: Mapping[str, str], **content: Any) -> Json:
    meta = deployment["metadata"]
    made = kind.manifest(
        service_name(meta["name"]), meta["namespace"], labels=labels_of_cluster(meta["name"]), **content
    )
    made["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    if annotations:
        made["metadata"]["annotations"] = {**annotations, OWN_ANNOTATIONS: ",".join(sorted(annotations))}
    return made


def _annotations(obj: Json) -> Mapping[str, str]:
    annotations_of: Mapping[str, str] = dig(obj, "metadata", "annotations") or {}
    return annotations_of


def surplus(existing: Json, desired: Json) -> dict[str, None]:
    """Return the annotations that were asked for once and are not any more, to be merged as null."""
    former = [key for key in _annotations(existing).get(OWN_ANNOTATIONS, "").split(",") if key]
    gone = [key for key in former if key not in _annotations(desired)]
    gone += [OWN_ANNOTATIONS] if former and OWN_ANNOTATIONS not in _annotations(desired) else []
    return dict.fromkeys(gone)


def must_be_new(existing: Json, desired: Json) -> bool:
    """Tell whether a Service cannot become the wanted one: the class of a load balancer never changes.

    A class that nobody asked for stays: the infra cluster filled it in.
    """
    before, after = dig(existing, "spec") or {}, dig(desired, "spec") or {}
    if not before.get("type") == after.get("type") == "LoadBalancer":
        return False
    kept = None if OWN_CLASS in _annotations(existing) else before.get("loadBalancerClass")
    return before.get("loadBalancerClass") != after.get("loadBalancerClass", kept)


def given_address(obj: Json | None) -> str:
    """Return the first address or name in the status of a Service or Ingress, "" while there is none.

    In lower case, and without the dot that ends a whole name.
    """
    there = dig(obj, "status", "loadBalancer", "ingress") or []
    known = (str(point.get("ip") or point.get("hostname") or "").lower().rstrip(".") for point in there)
    return next(filter(None, known), "")


def balancer_seen(service_object: Json, endpoint: ApiEndpoint) -> EndpointSeen:
    """Return what is seen of a Service of type LoadBalancer."""
    name, address = service_object["metadata"]["name"], given_address(service_object)
    if not address:
        waits = f"Service {name} has no address yet"
        message = f"no load balancer has given Service {name} an address within {WAIT_SECONDS:.0f} s"
        remedy = "install one, such as MetalLB, name its class in spec.endpoint.className, or choose another type"
        return EndpointSeen(
            None,
            EndpointReason.WAITING_FOR_ADDRESS,
            waits,
            late=(False, EndpointReason.NO_LOAD_BALANCER, f"{message}: {remedy}"),
        )
    if not (endpoint.host or endpoint.address or ip_version(address) or is_domain(address)):
        message = f"Service {name} was given the name {address}, which no certificate can have"
        remedy = "set spec.endpoint.host to a name of yours that leads to it, or spec.endpoint.address to its address"
        return EndpointSeen(False, EndpointReason.NAME_NOT_USABLE, f"{message}: {remedy}")
    if endpoint.address and _plain(address) != _plain(endpoint.address):
        message = f"Service {name} asked for {endpoint.address} and was given {address}"
        return EndpointSeen(
            False, EndpointReason.OTHER_ADDRESS, f"{message}: set spec.endpoint.address to that, or remove it", address
        )
    return EndpointSeen(True, EndpointReason.READY, "", address)


def _plain(text: str) -> str:
    """Return an address in its usual form, and a name in lower case."""
    return str(ip_address(text)) if ip_version(text) else text.lower()


def ingress_seen(ingress_object: Json) -> EndpointSeen:
    """Return what is seen of an Ingress."""
    name = ingress_object["metadata"]["name"]
    if address := given_address(ingress_object):
        return EndpointSeen(True, EndpointReason.READY, f"the name has to lead to {address}", address)
    message = f"no controller has said within {WAIT_SECONDS:.0f} s that it serves Ingress {name}"
    late = (None, EndpointReason.NOT_SERVED, f"{message}: see whether it runs; some say nothing of what they serve")
    return EndpointSeen(None, EndpointReason.WAITING_FOR_ADDRESS, f"Ingress {name} has no address yet", late=late)


def route_seen(route: Json, listener: Json) -> EndpointSeen:
    """Return what is seen of a TLSRoute at a listener."""
    taken_up, words = route_said(route)
    name, port = route["metadata"]["name"], int(listener.get("port") or 443)
    if taken_up is None:
        message = (
            f"no controller has taken TLSRoute {name} within {WAIT_SECONDS:.0f} s: see whether that of the Gateway runs"
        )
        waits = f"TLSRoute {name} is not taken yet"
        return EndpointSeen(
            None, EndpointReason.WAITING_FOR_GATEWAY, waits, port=port, late=(False, EndpointReason.NOT_SERVED, message)
        )
    if not taken_up:
        return EndpointSeen(
            False, EndpointReason.ROUTE_REFUSED, f"the Gateway refuses TLSRoute {name}: {words}", port=port
        )
    return EndpointSeen(True, EndpointReason.READY, "", port=port)


def route_said(route: Json | None) -> tuple[bool | None, str]:
    """Return whether the Gateway has taken a TLSRoute, None while it says nothing, and its words."""
    for parent in dig(route, "status", "parents") or []:
        for kind in ("Accepted", "ResolvedRefs"):
            parent_condition = condition({"status": parent}, kind)
            if parent_condition is not None and parent_condition.get("status") != "True":
                return False, str(parent_condition.get("message") or parent_condition.get("reason"))
        if condition({"status": parent}, "Accepted") is not None:
            return True, ""
    return None, ""


def taken(
    deployment: Json, others: Callable[[], Collection[Json]], machines: Callable[[], Iterable[Json]] = tuple
) -> EndpointRefused | None:
    """Return that an older ClusterDeployment, or a Machine of another one, has the same name or address outside.

    Args:
        others: gives all ClusterDeployments.  machines: gives all Machines. Neither is asked for an object that has
            nothing outside: each look at a cluster would read those of all.
    """
    mine = _outside(deployment)
    if not mine:
        return None
    order, known = _age(deployment), others()
    for other in known:
        shared = sorted(mine & _outside(other))
        if shared and other["metadata"].get("uid") != deployment["metadata"].get("uid") and _age(other) < order:
            meta = other["metadata"]
            message = f"{shared[0]} is that of cluster {meta['namespace']}/{meta['name']}: use another"
            return EndpointRefused(EndpointReason.TAKEN, message)
    return _on_a_machine(deployment, known, machines()) if _virtual(deployment) else None


def _on_a_machine(deployment: Json, others: Collection[Json], machines: Iterable[Json]) -> EndpointRefused | None:
    """Return that a Machine of another cluster, or of none, has the virtual address.

    Machines are known to be on one network in one namespace, and where their clusters have one pool of networks.
    """
    address, meta = _plain(_virtual(deployment)), deployment["metadata"]
    pools = {other["metadata"].get("uid"): dig(other, "spec", "network", "pool") for other in others}
    pool = dig(deployment, "spec", "network", "pool")
    for machine in machines:
        claim = dig(machine, "spec", "claim") or {}
        if claim.get("uid") == meta.get("uid"):
            continue  # the rules of the object say so of its own
        where = machine["metadata"]["namespace"]
        together = where == meta["namespace"] or (pool is not None and pools.get(claim.get("uid")) == pool)
        if together and address in _addresses(machine):
            whose = f" of cluster {where}/{claim['cluster']}" if claim else ""
            message = f"{address} is the address of Machine {where}/{machine['metadata']['name']}{whose}"
            return EndpointRefused(EndpointReason.TAKEN, f"{message}: use one that nobody has")
    return None


def _virtual(deployment: Json) -> str:
    """Return the virtual address that an object asks for, "" for none."""
    endpoint = dig(deployment, "spec", "endpoint") or {}
    return str(endpoint.get("address") or "") if endpoint.get("type") == VIRTUAL else ""


def _addresses(machine: Json) -> set[str]:
    """Return the addresses of a Machine: those that it was given, or those of its launcher's pod."""
    places = (("spec",), ("status", "infrastructure"))
    known = [dig(machine, *place, name) for place in places for name in ("address", "ipv6Address")]
    return {_plain(str(text)) for text in known if text}


def _outside(deployment: Json) -> set[str]:
    endpoint = dig(deployment, "spec", "endpoint") or {}
    if endpoint.get("type") not in (BALANCER, INGRESS_TYPE, GATEWAY, VIRTUAL):
        return set()
    return {_plain(str(value)) for value in (endpoint.get("host"), endpoint.get("address")) if value}


def _age(deployment: Json) -> tuple[str, str]:
    meta = deployment["metadata"]
    return str(meta.get("creationTimestamp") or ""), str(meta.get("uid") or "")


def filled_endpoint(deployment: Json, state: EndpointState | None) -> Json:
    """Return a ClusterDeployment with the address or name that a load balancer gave it, where it names none."""
    endpoint = dig(deployment, "spec", "endpoint")
    if state is None or not state.address or not isinstance(endpoint, dict):
        return deployment
    named = endpoint.get("host") or endpoint.get("address")
    if state.type != BALANCER or endpoint.get("type") != BALANCER or named:
        return deployment
    if not (ip_version(state.address) or is_domain(state.address)):
        return deployment  # nobody can give it to the object
    filled_field = {"address" if ip_version(state.address) else "host": state.address}
    return {**deployment, "spec": {**deployment["spec"], "endpoint": {**endpoint, **filled_field}}}


NOT_YET = "the infra cluster has not said yet where the API will be"


def endpoint_missing(situation: Situation) -> Wait | None:
    """Wait for the names of the API: the first certificate has them."""
    if (taken_wait := endpoint_taken(situation)) is not None:
        return taken_wait
    wish, state = situation.desired.wish, situation.observed.endpoint
    endpoint = wish.spec.way
    if api_names(endpoint, wish.metadata.name, wish.metadata.namespace) is not None:
        return None
    own = state is not None and state.type == endpoint.type
    return Wait(WaitReason.WAITING_FOR_ENDPOINT, (state.message if own and state is not None else "") or NOT_YET)


def endpoint_taken(situation: Situation) -> Wait | None:
    """Wait for another name or address while this one is an older cluster's; what a cluster has already stays."""
    desired, before = situation.desired, situation.observed.applied
    variables = before.variables if before is not None else {}
    same = before is not None and all(
        variables.get(name) == desired.variables.get(name) for name in (API_NAMES, VIRTUAL_ADDRESS)
    )
    words = situation.observed.taken
    return Wait(WaitReason.WAITING_FOR_ENDPOINT, f"spec.endpoint: {words}") if words and not same else None


def address_mistakes(wish: ClusterDeployment, machines: Sequence[DeclaredMachine]) -> Iterator[SpecMistake]:
    """Yield what is wrong with the virtual address of a cluster among its networks and machines."""
    endpoint, field = wish.spec.way, "spec.endpoint.address"
    if endpoint.type != VIRTUAL or not endpoint.address or not ip_version(endpoint.address):
        return
    families = wish.spec.network.families
    if families and ip_version(endpoint.address) != VERSIONS[families[0]]:
        yield SpecMistake(field, f"{endpoint.address} is not of {families[0]}", "use the family that comes first")
    whole = network_of(f"{endpoint.address}/{32 if ip_version(endpoint.address) == 4 else 128}")
    for place, text in wish.spec.network.by_field.items():
        around = network_of(text)
        if whole is not None and around is not None and whole.overlaps(around):
            message = f"{endpoint.address} is in the cluster's own network {text} ({place})"
            yield SpecMistake(field, message, "use a free one of the machines' network")
    for machine in machines:
        own = [network_of(f"{text}/{32 if '.' in text else 128}") for text in (machine.address, machine.ipv6_address)]
        if whole is not None and whole in own:
            message = f"{endpoint.address} is the address of Machine {machine.metadata.name}"
            yield SpecMistake(field, message, "use one that nobody has")


def told(state: EndpointState | None, endpoint: ApiEndpoint, *, usable: bool) -> tuple[bool | None, str, str]:
    """Return status, reason and message of the condition.

    Args:
        usable: whether the certificates of API servers have its names.
    """
    if endpoint.type == LOCAL:
        return True, str(EndpointReason.LOCAL), ""
    if state is None or state.type != endpoint.type:
        return None, str(EndpointReason.NOT_YET), "it is looked at soon"
    if state.ready and not usable:
        return (
            False,
            str(EndpointReason.NOT_SIGNED),
            "certificates of API servers do not name it yet: an operation signs others",
        )
    if state.ready and state.url is None:
        return None, str(EndpointReason.NOT_YET), "the kubeconfig that names it is handed out soon"
    return state.ready, state.reason, state.message


def is_named(wish: ClusterDeployment, variables: Mapping[str, Any]) -> bool:
    """Tell whether certificates of a cluster that was deployed with these variables have the endpoint's names."""
    names = api_names(wish.spec.way, wish.metadata.name, wish.metadata.namespace)
    there = variables.get(API_NAMES)
    return names is not None and set(names) <= set(there if isinstance(there, list) else ())
