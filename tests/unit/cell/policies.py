"""What a NetworkPolicy allows, evaluated as the API's reference describes it: for pairs of pods and addresses.

https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/network-policy-v1/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod with its namespace and labels, or an address outside of the cluster."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_pod(self) -> bool:
        return bool(self.namespace)


def connects(policies: Sequence[Json], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Tell whether a connection comes about: its source may make it, and its target may take it."""
    out = _allowed(policies, source, target, port, protocol, direction="egress", peers="to")
    return out and _allowed(policies, target, source, port, protocol, direction="ingress", peers="from")


def _allowed(
    policies: Sequence[Json], pod: End, other: End, port: int, protocol: str, *, direction: str, peers: str
) -> bool:
    """Tell whether a pod's policies allow a direction; a pod that none selects for it is not isolated."""
    about = [p for p in policies if _selects(p, pod) and direction.capitalize() in p["spec"]["policyTypes"]]
    rules = [(p["metadata"]["namespace"], rule) for p in about for rule in p["spec"].get(direction) or []]
    return not about or any(
        _port(rule, port, protocol) and (not rule.get(peers) or any(_peer(p, home, other) for p in rule[peers]))
        for home, rule in rules
    )


def _selects(policy: Json, pod: End) -> bool:
    same = pod.is_pod and policy["metadata"]["namespace"] == pod.namespace
    return same and _matches(policy["spec"]["podSelector"], pod.labels)


def _matches(selector: Json, labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels", "matchExpressions"}, "this evaluation knows no other selectors"
    same = dict(selector.get("matchLabels") or {}).items() <= dict(labels).items()
    return same and all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[requirement["operator"]]


def _port(rule: Json, port: int, protocol: str) -> bool:
    ports = rule.get("ports")
    return not ports or any(
        p.get("protocol", "TCP") == protocol and p.get("port", port) <= port <= p.get("endPort", p.get("port", port))
        for p in ports
    )


def _peer(peer: Json, home: str, other: End) -> bool:
    if "ipBlock" in peer:
        block, address = peer["ipBlock"], ip_address(other.address)
        inside = address in ip_network(block["cidr"])
        return inside and not any(address in ip_network(inner) for inner in block.get("except") or [])
    if not other.is_pod:
        return False
    if "namespaceSelector" in peer:
        if not _matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace}):
            return False
    elif other.namespace != home:
        return False
    return _matches(peer.get("podSelector") or {}, other.labels)
