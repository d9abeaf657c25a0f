"""The NetworkPolicy around a cluster's machines, and what is said of it; pure, names are resolved before.

It selects launcher pods by the label that KubeVirt gives each of them, not by one of the operator's: that label is on
every machine that there is, made by the operator or given to it, and a pod has it from its first moment on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Any

from harness.embedded.node.registration import RUNTIME
from harness.infra.cluster.capacity import for_machines
from harness.infra.cluster.trial import known
from harness.kube.client import Json
from harness.kube.objects import dig, owner_reference
from harness.kube.resources import NETWORK_POLICY
from harness.machines.network_rules import (
    DNS,
    LAUNCHER,
    LAUNCHER_NAME,
    VIRT_API,
    Endpoint,
    block,
    internet,
    single,
)
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.conditions import Said
from harness.operator.api.endpoint import (
    API_PORT,
    BALANCER,
    GATEWAY,
    INGRESS_TYPE,
    LOCAL,
    SERVICE_TYPE,
    VIRTUAL,
    EndpointState,
    EndpointType,
)
from harness.operator.api.isolation import API_CLIENT_LABEL, IsolationState
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.networks import ip_version
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, CLUSTER_LABEL, OPERATION_LABEL
from harness.operator.decide.due import Situation, Wait, WaitReason


class IsolationReason(StrEnum):
    """What is known of the isolation of a cluster. docs/operator/isolation.md explains each."""

    NOT_ENABLED = "NotEnabled"
    NOT_YET = "NotYet"
    ENFORCED = "Enforced"
    NOT_ENFORCED = "NotEnforced"
    ENFORCEMENT_UNKNOWN = "EnforcementUnknown"
    NO_SELECTABLE_PODS = "NoSelectablePods"
    NAME_IN_USE = "NameInUse"
    NOT_RESOLVED = "NotResolved"
    REFUSED = "Refused"


# Who connects to the API of an endpoint of each type: pods with the label of API clients alone, or anybody. A load
# balancer keeps or replaces the address of who asks; controllers of Ingresses and Gateways are in namespaces that
# nobody knows here.
OPEN_TO_ALL: Mapping[EndpointType, bool] = {
    LOCAL: False,
    SERVICE_TYPE: False,
    BALANCER: True,
    INGRESS_TYPE: True,
    GATEWAY: True,
    VIRTUAL: True,
}
FIELD = "spec.isolation.allowTo"
NOT_YET = "the NetworkPolicy around its machines is not there yet"


def policy_name(cluster: str) -> str:
    """Return the name of a cluster's NetworkPolicy."""
    return f"{cluster}-isolation"


@dataclass(frozen=True)
class IsolatedMachines:
    """The machines of a cluster.

    launchers: what KubeVirt's label of their launcher pods says, by Machine.  bare: addresses of those that are not
    pods, by Machine.  ports: of their SSH servers.
    """

    launchers: Mapping[str, str] = field(default_factory=dict)
    bare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ports: tuple[int, ...] = ()

    @staticmethod
    def of(machines: Iterable[DeclaredMachine], labelled: Mapping[str, str]) -> IsolatedMachines:
        """Sort machines.

        Args:
            labelled: KubeVirt's label by the UID of an instance, of launcher pods that there are; a given machine may
                have another hostname than its instance has a name.
        """
        launchers: dict[str, str] = {}
        bare: dict[str, tuple[str, ...]] = {}
        ports = set()
        for machine in sorted(machines, key=lambda candidate: candidate.metadata.name):
            infrastructure = machine.status.infrastructure
            ports.add(machine.spec.port)
            if machine.instance:
                instance = infrastructure.instance if infrastructure is not None else ""
                launchers[machine.metadata.name] = labelled.get(instance, machine.instance)
            else:
                bare[machine.metadata.name] = tuple(filter(None, (machine.address, machine.ipv6_address)))
        return IsolatedMachines(launchers, bare, tuple(sorted(ports)))

    @property
    def selector(self) -> Json:
        """Return what selects their launcher pods; there has to be one."""
        values = sorted(set(self.launchers.values()))
        names = {"key": LAUNCHER_NAME, "operator": "In", "values": values}
        return {"matchLabels": dict(LAUNCHER), "matchExpressions": [names]}

    @property
    def peers(self) -> list[Json]:
        """Return them as peers of each other."""
        return [
            {"podSelector": self.selector},
            *(block(single(address)) for addresses in self.bare.values() for address in addresses),
        ]


def policy(
    deployment: Json,
    wish: ClusterDeployment,
    machines: IsolatedMachines,
    *,
    managers: Sequence[Json],
    reached: Sequence[Json],
    endpoint: EndpointState | None = None,
) -> Json:
    """Return the policy, as the API server stores it.

    Args:
        machines: with one launcher pod at least.  managers: peers that the operator's own connections come from.
        reached: rules of what the object names, such as the mirror.
    """
    meta = deployment["metadata"]
    labels = {CLUSTER_LABEL: meta["name"], LABEL_MANAGED: MANAGED_BY}
    spec = {
        "podSelector": machines.selector,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": list(_ingress(wish, machines, managers)),
        "egress": list(_egress(wish, machines, reached, endpoint)),
    }
    made = NETWORK_POLICY.manifest(policy_name(meta["name"]), meta["namespace"], labels=labels, spec=spec)
    made["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    return made


def _tcp(*ports: int) -> list[Json]:
    return [{"protocol": "TCP", "port": port} for port in sorted(set(ports))]


def _ingress(wish: ClusterDeployment, machines: IsolatedMachines, managers: Sequence[Json]) -> Iterator[Json]:
    """Yield who connects to machines."""
    name, ssh = wish.metadata.name, machines.ports
    operations = [{"key": OPERATION_LABEL, "operator": "Exists"}]
    executors = {"matchLabels": {CLUSTER_LABEL: name}, "matchExpressions": operations}
    yield {"from": machines.peers}
    yield {"from": [VIRT_API]}
    yield {"from": [{"podSelector": executors}], "ports": _tcp(*ssh)}
    if managers:
        yield {"from": list(managers), "ports": _tcp(*ssh, API_PORT)}
    if OPEN_TO_ALL[wish.spec.way.type]:
        yield {"ports": _tcp(API_PORT)}
    else:
        clients = {"podSelector": {"matchLabels": {API_CLIENT_LABEL: name}}}
        yield {"from": [clients], "ports": _tcp(API_PORT)}
    for peer in wish.spec.isolation.allow_from:
        yield peer.rule("from")


def _egress(
    wish: ClusterDeployment, machines: IsolatedMachines, reached: Sequence[Json], endpoint: EndpointState | None
) -> Iterator[Json]:
    """Yield whom machines connect to."""
    yield {"to": machines.peers}
    yield DNS
    yield from reached
    if address := outer_address(wish, endpoint):
        yield {"to": [block(single(address))], "ports": _tcp(wish.spec.way.port or API_PORT)}
    if needs_internet(wish):
        yield from internet()
    for peer in wish.spec.isolation.allow_to:
        yield peer.rule("to")


def outer_address(wish: ClusterDeployment, endpoint: EndpointState | None) -> str:
    """Return the address of the endpoint that is not one of its machines', "" for none."""
    way = wish.spec.way
    balancer_address = endpoint.address if endpoint is not None and endpoint.type == way.type else ""
    address = (way.address or balancer_address) if way.type in (VIRTUAL, BALANCER) else ""
    return str(ip_address(address)) if ip_version(address) else ""


def needs_internet(wish: ClusterDeployment) -> bool:
    """Tell whether machines get binaries from the makers' sites."""
    return wish.spec.source.type == "Upstream"


def tolerates(wish: ClusterDeployment) -> bool:
    """Tell whether a name that cannot be resolved here is fine: the object allows networks that may have it."""
    return needs_internet(wish) or any(peer.ip_block is not None for peer in wish.spec.isolation.allow_to)


def reached_by(wish: ClusterDeployment) -> list[Endpoint]:
    """Return what the object names that machines connect to, by the field that names it."""
    source, endpoints = wish.spec.source, list[Endpoint]()
    if source.type == "Mirror" and source.mirror:
        endpoints.append(Endpoint.of_url("spec.source.mirror", source.mirror))
    if source.registry:
        endpoints.append(Endpoint.of_registry("spec.source.registry", source.registry))
    for name, url in source.sites.model_dump(by_alias=True, exclude_none=True).items():
        if source.type == "Upstream":
            endpoints.append(Endpoint.of_url(f"spec.source.sites.{name}", url))
    for further in wish.spec.runtime.registries or ():
        place = f"spec.runtime.registries[{further.name}]"
        endpoints.append(
            Endpoint.of_url(f"{place}.server", further.server)
            if further.server
            else Endpoint.of_registry(f"{place}.name", further.name)
        )
    for number, authenticator in enumerate(wish.spec.authentication.jwt or ()):
        place = f"spec.authentication.jwt[{number}].issuer"
        endpoints.append(
            Endpoint.of_url(f"{place}.discoveryURL", authenticator.issuer.discovery_url)
            if authenticator.issuer.discovery_url
            else Endpoint.of_url(f"{place}.url", authenticator.issuer.url)
        )
    return [endpoint for endpoint in endpoints if endpoint.host]


@dataclass(frozen=True)
class Enforcement:
    """Whether an infra cluster's network enforces policies, None where nobody knows, and how that is known."""

    enforced: bool | None
    why: str


def enforcement(groups: Iterable[str], nodes: Sequence[Json] | None) -> Enforcement:
    """Tell whether a network enforces policies.

    Args:
        groups: API groups that are served.  nodes: all Nodes, None where they may not be listed.
    """
    able = for_machines(nodes or ())
    if able and all(_runtime(node).startswith(RUNTIME) for node in able):
        why = "machines run on the embedded KubeVirt, whose networks keep namespaces apart and know no policies"
        return Enforcement(False, why)
    entries = (image for node in nodes or () for image in dig(node, "status", "images") or ())
    images = {name for image in entries for name in image.get("names") or ()}
    plugin = known(frozenset(groups), images)
    if plugin.enforces is None:
        unseen = " and Nodes may not be listed" if nodes is None else ""
        return Enforcement(None, f"the network plugin is not a known one{unseen}; vmatrix doctor tries it")
    if plugin.enforces:
        return Enforcement(True, f"{plugin.name} enforces it")
    return Enforcement(False, f"{plugin.name} enforces no NetworkPolicies; use a network plugin that does")


def _runtime(node: Json) -> str:
    return str(dig(node, "status", "nodeInfo", "containerRuntimeVersion") or "")


class IsolationRefused(ValueError):
    """The policy cannot be as wanted. reason: see there."""

    def __init__(self, reason: IsolationReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def state_of(machines: IsolatedMachines, plugin: Enforcement) -> IsolationState:
    """Return what is said of a policy that is as wanted."""
    bare, covered = tuple(machines.bare), tuple(machines.launchers)
    if bare:
        sentence = (
            f"no policy can select {', '.join(bare)}: spec.through of the Machine names no VirtualMachineInstance; "
            "name it, or let a firewall of the machines' network keep them apart"
        )
        reason, message = IsolationReason.NO_SELECTABLE_PODS, sentence
    elif plugin.enforced is None:
        reason, message = IsolationReason.ENFORCEMENT_UNKNOWN, plugin.why
    else:
        reason = IsolationReason.ENFORCED if plugin.enforced else IsolationReason.NOT_ENFORCED
        message = plugin.why
    return IsolationState(
        ready=True, reason=reason, message=message[:1024], enforced=plugin.enforced, machines=covered, bare=bare
    )


def failed_state(before: IsolationState | None, refused: IsolationRefused) -> IsolationState:
    """Return what is said while a policy cannot be as wanted: what it selected before, it still does."""
    known_state = before or IsolationState()
    changes = {"ready": False, "reason": str(refused.reason), "message": str(refused)[:1024]}
    return known_state.model_copy(update=changes)


STATUSES: Mapping[str, bool | None] = {
    IsolationReason.ENFORCED: True,
    IsolationReason.NOT_YET: None,
    IsolationReason.ENFORCEMENT_UNKNOWN: None,
}


def told(state: IsolationState | None, wish: ClusterDeployment) -> Said:
    """Return status, reason and message of the condition."""
    if not wish.spec.isolation.enabled:
        return False, str(IsolationReason.NOT_ENABLED), ""
    if state is None:
        return None, str(IsolationReason.NOT_YET), NOT_YET
    return STATUSES.get(state.reason, False), state.reason, state.message


def isolation_missing(situation: Situation) -> Wait | None:
    """Wait for the policy of a cluster that asks for one: no machine is worked on that it does not select yet."""
    if not situation.desired.spec.isolation.enabled:
        return None
    state = situation.observed.isolation
    if state is None or not state.ready:
        message = (state.message if state is not None else "") or NOT_YET
        return Wait(WaitReason.WAITING_FOR_ISOLATION, f"spec.isolation: {message}")
    open_ones = [name for name in situation.desired.machines if name not in (*state.machines, *state.bare)]
    if open_ones:
        return Wait(WaitReason.WAITING_FOR_ISOLATION, f"the policy does not select {', '.join(open_ones)} yet")
    return None


def selects(policy_object: Mapping[str, Any] | None, launcher: str) -> bool:
    """Tell whether a policy selects the launcher pod of a name."""
    rules = dig(policy_object, "spec", "podSelector", "matchExpressions") or ()
    return any(
        expression.get("key") == LAUNCHER_NAME and launcher in (expression.get("values") or ()) for expression in rules
    )
