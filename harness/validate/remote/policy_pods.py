"""Pods that dial each other while NetworkPolicies last: clients and servers of two namespaces, and their policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, POD
from harness.kube.resources import SERVICE as SERVICES
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.facts.cluster import Json, addresses_of, of_family
from harness.validate.facts.policy_cases import (
    ADMIN,
    CLIENTS,
    GUEST,
    HTTP,
    INSIDE,
    JOB,
    NEAR,
    OUTSIDE,
    SERVERS,
    SERVICE,
    TEAM,
    UDP,
    WEB,
    Case,
    Connection,
)
from harness.validate.pods import INTERVAL, describe_pods, netexec, wait_for_service_account, wait_until_gone
from harness.validate.probes import DIAL_SECONDS, DialResult, dial_from

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

    def dial(self, one: Connection) -> DialResult:
        """Let a client dial, once; a second time where the API server's proxy did not reach the client."""
        query = {
            "host": self.addresses[one.server],
            "port": str(SERVICE_PORT if one.server == SERVICE else one.port),
            "protocol": "udp" if one.port == UDP else "http",
            "request": "hostname",
            "tries": "1",
        }
        namespace, seconds = NAMESPACE_OF[one.client], self.proxy_seconds + DIAL_SECONDS
        first = dial_from(self.api, namespace, one.client, query, seconds)
        return dial_from(self.api, namespace, one.client, query, seconds) if first.unasked else first

    def give(self, case: Case) -> None:
        """Let the policies of a case be those that the pods have, and no others."""
        wanted = case.policies({**self.addresses, "pods": self.pod_network})
        for found in self.api.list(NETWORK_POLICY, INSIDE).items:
            if found["metadata"]["name"] not in wanted:
                self.api.delete(NETWORK_POLICY, found["metadata"]["name"], INSIDE)
        for name, spec in wanted.items():
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
            {name: of_family(given, ip_network(network).version) for name, given in every.items()},
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
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


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
