"""NetworkPolicies, and which connections each of them leaves, as the API defines it (networking.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.validate.facts.cluster import Json

NEAR, FAR = "near", "far"  # servers: on the first node and, where there is one, on the second
WEB, JOB, GUEST = "web", "job", "guest"  # clients: two of the servers' namespace, one of another
CLIENTS, SERVERS = (WEB, JOB, GUEST), (NEAR, FAR)
SERVICE = "service"  # the address of the Service in front of both servers
HTTP, ADMIN, UDP = 8080, 8090, 8081  # of a server; the second is named `admin`
INSIDE, OUTSIDE = "vmatrix-policy", "vmatrix-policy-other"  # namespaces
TEAM: Mapping[str, str] = {INSIDE: "inside", OUTSIDE: "outside"}  # their label `team`


@dataclass(frozen=True, order=True)
class Connection:
    """A client, whom it dials, and at which port."""

    client: str
    server: str
    port: int

    def __str__(self) -> str:
        """Return it as messages have it."""
        return f"{self.client} -> {self.server} ({'UDP' if self.port == UDP else 'TCP'} {self.port})"


@dataclass(frozen=True)
class Case:
    """Policies, by name, and which connections they leave.

    policies: what their `spec` is, of the addresses of pods by name, and of the pod network (`pods`), of one IP family.
    leaves: whether a connection works; None where the policies let a Service's backends differ.
    """

    name: str
    policies: Callable[[Mapping[str, str]], Mapping[str, Json]]
    leaves: Callable[[Connection], bool | None]


EVERY: Sequence[Connection] = tuple(
    Connection(client, server, port)
    for client in CLIENTS
    for server, ports in ((NEAR, (HTTP, ADMIN, UDP)), (FAR, (HTTP, ADMIN, UDP)), (SERVICE, (HTTP,)))
    for port in ports
)


def _alone(address: str) -> str:
    """Return the network of one address."""
    return f"{address}/{128 if ':' in address else 32}"


ALL_SERVERS: Json = {"matchLabels": {"app": "server"}}
ALL_CLIENTS: Json = {"matchExpressions": [{"key": "role", "operator": "In", "values": [WEB, JOB]}]}  # of INSIDE
PEER_OF: Mapping[str, Json] = {
    WEB: {"podSelector": {"matchLabels": {"role": WEB}}},
    JOB: {"podSelector": {"matchLabels": {"role": JOB}}},
    GUEST: {"namespaceSelector": {"matchLabels": {"team": TEAM[OUTSIDE]}}},
}


def _ingress(*rules: Json, pods: Json = ALL_SERVERS) -> Json:
    return {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": list(rules)}


def _egress(*rules: Json, pods: Json = ALL_CLIENTS) -> Json:
    return {"podSelector": pods, "policyTypes": ["Egress"], "egress": list(rules)}


def _place(name: str) -> Json:
    return {"podSelector": {"matchLabels": {"place": name}}}


def _only(**policies: Json) -> Callable[[Mapping[str, str]], Mapping[str, Json]]:
    return lambda _: policies


def _port(**fields: Any) -> Json:
    return {"ports": [fields]}


def _from(*clients: str) -> Callable[[Connection], bool | None]:
    return lambda one: one.client in clients


def _at(*ports: int) -> Callable[[Connection], bool | None]:
    return lambda one: one.port in ports


def _near_alone(one: Connection) -> bool | None:
    return None if one.server == SERVICE else one.server == FAR


def _inside_to(*servers: str) -> Callable[[Connection], bool | None]:
    def leaves(one: Connection) -> bool | None:
        if one.client == GUEST:
            return True
        return None if one.server == SERVICE and servers else one.server in servers

    return leaves


def _both_ways(one: Connection) -> bool | None:
    if one.server == SERVICE:
        return None
    return one.client == JOB if one.server == NEAR else one.client != WEB


CASES: Sequence[Case] = (
    Case("nobody may come in", _only(deny=_ingress()), _from()),
    Case("pods with a label may come in", _only(allow=_ingress({"from": [PEER_OF[WEB]]})), _from(WEB)),
    Case(
        "pods of namespaces with a label may come in", _only(allow=_ingress({"from": [PEER_OF[GUEST]]})), _from(GUEST)
    ),
    Case(
        "a peer means namespace and pod together",
        _only(allow=_ingress({"from": [{**PEER_OF[GUEST], **PEER_OF[JOB]}, PEER_OF[JOB]]})),
        _from(JOB),
    ),
    Case(
        "each of several peers may come in",
        _only(allow=_ingress({"from": [PEER_OF[WEB], PEER_OF[GUEST]]})),
        _from(WEB, GUEST),
    ),
    Case(
        "several policies add up",
        _only(first=_ingress({"from": [PEER_OF[JOB]]}), second=_ingress({"from": [PEER_OF[GUEST]]})),
        _from(JOB, GUEST),
    ),
    Case(
        "addresses may come in, with exceptions",
        lambda at: {
            "allow": _ingress({"from": [{"ipBlock": {"cidr": at["pods"], "except": [_alone(at[JOB])]}}]}),
        },
        _from(WEB, GUEST),
    ),
    Case(
        "one address may come in",
        lambda at: {"allow": _ingress({"from": [{"ipBlock": {"cidr": _alone(at[GUEST])}}]})},
        _from(GUEST),
    ),
    Case("one TCP port is open", _only(allow=_ingress(_port(port=HTTP))), _at(HTTP)),
    Case("a named port is open", _only(allow=_ingress(_port(port="admin"))), _at(ADMIN)),
    Case("a range of ports is open", _only(allow=_ingress(_port(port=8085, endPort=8095))), _at(ADMIN)),
    Case("one UDP port is open", _only(allow=_ingress(_port(port=UDP, protocol="UDP"))), _at(UDP)),
    Case(
        "a port is open to pods with a label",
        _only(allow=_ingress({"from": [PEER_OF[JOB]], **_port(port=HTTP)})),
        lambda one: one.client == JOB and one.port == HTTP,
    ),
    Case(
        "a policy is for the pods that it selects", _only(deny=_ingress(pods=_place(NEAR)["podSelector"])), _near_alone
    ),
    Case("nobody may go out", _only(deny=_egress()), _inside_to()),
    Case("pods may go out to pods with a label", _only(allow=_egress({"to": [_place(FAR)]})), _inside_to(FAR)),
    Case(
        "pods may go out to addresses, with exceptions",
        lambda at: {"allow": _egress({"to": [{"ipBlock": {"cidr": at["pods"], "except": [_alone(at[FAR])]}}]})},
        _inside_to(NEAR),
    ),
    Case(
        "pods may go out to a port",
        _only(allow=_egress(_port(port=HTTP))),
        lambda one: one.client == GUEST or one.port == HTTP,
    ),
    Case(
        "both ends must agree",
        _only(
            out=_egress({"to": [_place(NEAR)]}, pods=PEER_OF[WEB]["podSelector"]),
            into=_ingress({"from": [PEER_OF[JOB]]}, pods=_place(NEAR)["podSelector"]),
        ),
        _both_ways,
    ),
)
OPEN = Case("no policy is there", _only(), lambda _: True)
FIRST, SECOND = CASES[1], CASES[2]  # of a policy of one name, which becomes another
