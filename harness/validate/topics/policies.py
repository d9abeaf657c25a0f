"""NetworkPolicies: which connections each must leave (networking.k8s.io/v1), and which pods get.

A connection that is refused and one that gets no answer are both blocked: the API does not say which it must be. Does
not cover connections that were there before a policy, nor policies for the machines' own network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, POD
from harness.kube.resources import SERVICE as SERVICES
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.facts.cluster import Json, addresses_of, of_family
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import INTERVAL, describe_pods, netexec, wait_for_service_account, wait_until_gone
from harness.validate.probes import DIAL_SECONDS, DialResult, dial_from

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
    return lambda connection: connection.client in clients


def _at(*ports: int) -> Callable[[Connection], bool | None]:
    return lambda connection: connection.port in ports


def _near_alone(connection: Connection) -> bool | None:
    return None if connection.server == SERVICE else connection.server == FAR


def _inside_to(*servers: str) -> Callable[[Connection], bool | None]:
    def leaves(connection: Connection) -> bool | None:
        if connection.client == GUEST:
            return True
        return None if connection.server == SERVICE and servers else connection.server in servers

    return leaves


def _both_ways(connection: Connection) -> bool | None:
    if connection.server == SERVICE:
        return None
    return connection.client == JOB if connection.server == NEAR else connection.client != WEB


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
        lambda connection: connection.client == JOB and connection.port == HTTP,
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
        lambda connection: connection.client == GUEST or connection.port == HTTP,
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
SERVICE_PORT = 80
NAMESPACE_OF: Mapping[str, str] = {name: OUTSIDE if name == GUEST else INSIDE for name in (*CLIENTS, *SERVERS)}
ROLE_OF: Mapping[str, str] = {WEB: WEB, JOB: JOB, GUEST: WEB}  # the guest differs by its namespace alone
ON_FIRST_NODE = (NEAR, WEB)  # all others are on the second, where there is one
SECOND_UDP = 8091  # of the second server of a pod, which nobody dials


@dataclass(frozen=True)
class PolicyPods:
    """The pods of a guest, where each is, and how policies are given to them.

    addresses: of pods by name, and of the Service, of one IP family.  pod_network: CIDR of the cluster's pods, of that.
    proxy_seconds: what the API server's proxy may take on top of the dialling pod's own limit.
    """

    api: Cluster
    addresses: Mapping[str, str]
    pod_network: str
    proxy_seconds: float

    def dial(self, connection: Connection) -> DialResult:
        """Let a client dial, once; a second time where the API server's proxy did not reach the client."""
        query = {
            "host": self.addresses[connection.server],
            "port": str(SERVICE_PORT if connection.server == SERVICE else connection.port),
            "protocol": "udp" if connection.port == UDP else "http",
            "request": "hostname",
            "tries": "1",
        }
        namespace, seconds = NAMESPACE_OF[connection.client], self.proxy_seconds + DIAL_SECONDS
        first = dial_from(self.api, namespace, connection.client, query, seconds)
        return dial_from(self.api, namespace, connection.client, query, seconds) if first.unasked else first

    def give(self, case: Case) -> None:
        """Let the policies of a case be those that the pods have, and no others."""
        specs = case.policies({**self.addresses, "pods": self.pod_network})
        for policy in self.api.list(NETWORK_POLICY, INSIDE).items:
            if policy["metadata"]["name"] not in specs:
                self.api.delete(NETWORK_POLICY, policy["metadata"]["name"], INSIDE)
        for name, spec in specs.items():
            if self.api.get(NETWORK_POLICY, name, INSIDE) is None:
                self.api.create(NETWORK_POLICY, _policy(name, spec))
            else:
                self.api.replace(NETWORK_POLICY, _policy(name, spec))

    def relabel(self, client: str, role: str) -> None:
        """Give a client another label `role`."""
        self.api.merge(POD, client, {"metadata": {"labels": {"role": role}}}, NAMESPACE_OF[client])


def place(
    api: Cluster, nodes: tuple[str, ...], pod_networks: Sequence[str], image: str, timeouts: Timeouts
) -> tuple[PolicyPods, ...]:
    """Create the pods and the Service of the servers; wait for all to be ready.

    Args:
        pod_networks: of each IP family that the cluster has.

    Returns:
        the pods as each family has them.

    Raises:
        TimedOut: with the pods that are not ready, and their last events.
    """
    deadline = Deadline.after(timeouts.probe_pods)
    remove(api, deadline)  # of an earlier or interrupted run
    for namespace, team in TEAM.items():
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {"team": team}}}
        api.create(NAMESPACE, body)
        wait_for_service_account(api, namespace, deadline)
    for name in NAMESPACE_OF:
        api.create(POD, _pod(name, nodes[0] if name in ON_FIRST_NODE else nodes[-1], image))
    service = api.create(SERVICES, _service())
    addresses = until(
        lambda: _ready(api),
        deadline=deadline,
        what="the pods of the policies' checks to be ready",
        describe=lambda: "\n".join(describe_pods(api, namespace) for namespace in TEAM),
        interval=INTERVAL,
    )
    every = {**addresses, SERVICE: tuple(service["spec"].get("clusterIPs") or [service["spec"]["clusterIP"]])}
    return tuple(
        PolicyPods(
            api,
            {name: of_family(pod_addresses, ip_network(network).version) for name, pod_addresses in every.items()},
            network,
            timeouts.probe_proxy,
        )
        for network in pod_networks
    )


def remove(api: Cluster, deadline: Deadline) -> None:
    """Remove both namespaces with all that is in them, and wait until they are gone. Idempotent."""
    for namespace in TEAM:
        if api.get(NAMESPACE, namespace) is not None:
            api.delete(NAMESPACE, namespace)
    for namespace in TEAM:
        wait_until_gone(api, NAMESPACE, namespace, None, deadline)


def _ready(api: Cluster) -> dict[str, tuple[str, ...]] | NotYet:
    pods = {pod["metadata"]["name"]: pod for namespace in TEAM for pod in api.list(POD, namespace).items}
    missing = [name for name in NAMESPACE_OF if not _is_ready(pods.get(name))]
    return NotYet(f"not ready: {', '.join(missing)}") if missing else {n: addresses_of(pods[n]) for n in pods}


def _is_ready(pod: Json | None) -> bool:
    conditions = (pod or {}).get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _pod(name: str, node: str, image: str) -> Json:
    """Return a client, or a server that listens at two TCP ports and one UDP port."""
    first = {**netexec(image, f"--udp-port={UDP}"), "ports": [{"name": "http", "containerPort": HTTP}]}
    labels = {"role": ROLE_OF[name]} if name in CLIENTS else {"app": "server", "place": name}
    containers = [first]
    if name in SERVERS:
        containers.append(_second(image))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE_OF[name], "labels": labels},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": containers,
        },
    }


def _second(image: str) -> Json:
    made = netexec(image, f"--http-port={ADMIN}", f"--udp-port={SECOND_UDP}")
    made["readinessProbe"]["httpGet"]["port"] = ADMIN
    return {**made, "name": "admin", "ports": [{"name": "admin", "containerPort": ADMIN}]}


def _service() -> Json:
    ports: list[dict[str, Any]] = [{"port": SERVICE_PORT, "targetPort": HTTP}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "server", "namespace": INSIDE},
        "spec": {"selector": {"app": "server"}, "ports": ports, "ipFamilyPolicy": "PreferDualStack"},
    }


def _policy(name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": INSIDE}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


PARALLEL_DIALS = 8


class Outcome(StrEnum):
    """What became of a connection."""

    ANSWERED = "an answer"
    REFUSED = "refused"
    SILENT = "no answer"
    UNKNOWN = "not known"


REFUSALS = ("refused", "unreachable", "no route to host", "prohibited", "not permitted")


def outcome_of(answer: DialResult) -> Outcome:
    """Return what became of a connection that a pod has tried."""
    if answer.unasked:
        return Outcome.UNKNOWN
    if answer.responses and not answer.errors:
        return Outcome.ANSWERED
    words = " ".join(answer.errors).lower()
    return Outcome.REFUSED if any(word in words for word in REFUSALS) else Outcome.SILENT


def wrong_connections(pods: PolicyPods, case: Case) -> list[Mismatch]:
    """Try every connection that a case judges; return those that became of otherwise."""
    judged = {connection: works for connection in EVERY if (works := case.leaves(connection)) is not None}
    with ThreadPoolExecutor(PARALLEL_DIALS) as pool:
        answers = dict(zip(judged, pool.map(pods.dial, judged), strict=True))
    return differing(case, judged, answers)


def differing(
    case: Case, judged: Mapping[Connection, bool], answers: Mapping[Connection, DialResult]
) -> list[Mismatch]:
    """Return the connections that became of otherwise than a case says; of a client that nobody reaches, that alone."""
    mismatches = differs("the check", "any connection", True, bool(judged))
    unasked = {connection.client: answers[connection].unasked for connection in judged if answers[connection].unasked}
    requirement = "an answer, without which nothing is known of what it reaches"
    mismatches += [Mismatch(f"API server -> {client}", requirement, why) for client, why in sorted(unasked.items())]
    for connection, works in sorted(judged.items()):
        outcome = outcome_of(answers[connection])
        if outcome is Outcome.UNKNOWN or works is (outcome is Outcome.ANSWERED):
            continue
        errors = "; ".join(answers[connection].errors)[:200]
        expected = "an answer" if works else "none: it is refused, or nothing comes back"
        mismatches.append(
            Mismatch(f"{connection}, while {case.name}", expected, f"{outcome}{f': {errors}' if errors else ''}")
        )
    return mismatches
