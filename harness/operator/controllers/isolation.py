"""Isolation: a NetworkPolicy around the launcher pods of each cluster that asks for one, put back where it is changed.

It follows the claims of Machines: a machine that is made waits for it, and so does an operation on one that is given.
While a name that it needs cannot be resolved, it stays as it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from pydantic import ValidationError

from harness.errors import InfraError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.in_cluster import POD_NAME, own_namespace
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import NETWORK_POLICY, NODE, POD
from harness.machines.kubevirt.launchers import CREATED_BY
from harness.machines.network_rules import (
    LAUNCHER,
    LAUNCHER_NAME,
    block,
    in_namespace,
    own_address,
    rule_to,
    single,
)
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.endpoint import EndpointState
from harness.operator.api.isolation import IsolationState
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.machine_phase import claimed_by, follow_claims, without_claim
from harness.operator.decide.isolation import (
    FIELD,
    Enforcement,
    IsolatedMachines,
    IsolationReason,
    IsolationRefused,
    enforcement,
    failed_state,
    policy,
    policy_name,
    reached_by,
    state_of,
    tolerates,
)

COMPONENT = "isolation"
LOOK_SECONDS = 60.0  # pacing: names may get other addresses, of which nobody tells
AGAIN_SECONDS = 10.0  # pacing: while something is in the way
KNOWN_SECONDS = 300.0  # a network plugin is rarely replaced, and lists of Nodes are long
APPLICATION = "app.kubernetes.io/name"


def manager_peers(cluster: Cluster, environment: Mapping[str, str] = os.environ) -> list[Json]:
    """Return the peers that connections of the operator come from: pods like this one, or this host's address.

    A pod that has its node's address is seen by that, not by its labels.
    """
    namespace, name = own_namespace(environment), environment.get(POD_NAME, "")
    pod = cluster.get(POD, name, namespace) if namespace and name else None
    if pod is None:
        address = own_address(cluster.server)
        return [block(single(address))] if address and not ip_address(address).is_loopback else []
    if dig(pod, "spec", "hostNetwork"):
        return [block(single(pod_ip["ip"])) for pod_ip in dig(pod, "status", "podIPs") or ()]
    labels = labels_of(pod)
    known = {APPLICATION: labels[APPLICATION]} if APPLICATION in labels else dict(labels)
    return [in_namespace(namespace, {key: value for key, value in known.items() if key != "pod-template-hash"})]


class NetworkKnowledge:
    """Whether the infra cluster's network enforces policies, as far as the API tells; asked now and then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._at = 0.0
        self._known: Enforcement | None = None
        self._asking = threading.Lock()

    def look(self) -> Enforcement:
        """Return what is known."""
        with self._asking:
            if self._known is None or time.monotonic() - self._at > KNOWN_SECONDS:
                groups = [group["name"] for group in self._cluster.object("GET", "/apis").get("groups") or ()]
                self._known, self._at = enforcement(groups, self._nodes()), time.monotonic()
            return self._known

    def _nodes(self) -> Sequence[Json] | None:
        try:
            return self._cluster.list(NODE).items
        except ApiFailure as failure:
            if failure.forbidden:
                return None
            raise


class IsolationController:
    """Isolates clusters."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._network = NetworkKnowledge(context.cluster)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._clusters = context.informers.of(CLUSTER)
        self._machines = context.informers.of(MACHINE)
        self._policies = context.informers.of(NETWORK_POLICY, labels=CLUSTER_LABEL)
        self.controller = Controller("isolation", self.reconcile, workers=2)
        for informer in (self._deployments, self._clusters):
            follow(informer, self.controller.queue)
        follow_children(self._policies, CLUSTER_DEPLOYMENT, self.controller.queue)
        follow_claims(self._machines, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster."""
        deployment = self._deployments.get(*key)
        if deployment is None or deleting(deployment):
            return None  # the policy goes with its owner, after the reset of the machines
        try:
            wish = ClusterDeployment.model_validate(deployment)
        except ValidationError:
            return None
        if any(wish.spec.isolation.broken(creating=False)):
            return None  # definitions older than these rules; the object is not accepted
        cluster = self._clusters.get(*key)
        if cluster is not None and (deleting(cluster) or not owned_by(cluster, deployment)):
            cluster = None
        if not wish.spec.isolation.enabled:
            self._remove(deployment)
            self._write(deployment, cluster, None)
            return None
        told = dig(cluster, "status", "isolation")
        before = IsolationState.model_validate(told) if told else None
        machines = self._machines_of(deployment, cluster)
        try:
            self._have(deployment, wish, machines, cluster)
        except IsolationRefused as refused:
            self._write(deployment, cluster, failed_state(before, refused))
            return AGAIN_SECONDS
        self._write(deployment, cluster, state_of(machines, self._network.look()))
        return LOOK_SECONDS

    def _machines_of(self, deployment: Json, cluster: Json | None) -> IsolatedMachines:
        """Return the machines of a cluster, those whose claim somebody has removed as well."""
        uid, namespace = deployment["metadata"]["uid"], deployment["metadata"]["namespace"]
        claimed = claimed_by(self._machines, key_of(deployment))
        own = [machine for machine in claimed if dig(machine, "spec", "claim", "uid") == uid]
        own += without_claim(self._machines, cluster, uid) if cluster is not None else []
        models = [DeclaredMachine.model_validate(machine) for machine in own]
        has_instances = any(machine.spec.through is not None and not machine.made for machine in models)
        return IsolatedMachines.of(models, self._labelled(namespace) if has_instances else {})

    def _labelled(self, namespace: str) -> dict[str, str]:
        """Return KubeVirt's label of launcher pods by the UIDs of their instances."""
        chosen = ",".join(f"{key}={value}" for key, value in LAUNCHER.items())
        pods = [labels_of(pod) for pod in self._cluster.list(POD, namespace, labels=chosen).items]
        return {
            labels[CREATED_BY]: labels[LAUNCHER_NAME]
            for labels in pods
            if CREATED_BY in labels and LAUNCHER_NAME in labels
        }

    def _have(
        self, deployment: Json, wish: ClusterDeployment, machines: IsolatedMachines, cluster: Json | None
    ) -> None:
        """Have the policy as it is to be; none where it would select nothing.

        Raises:
            IsolationRefused: it cannot be so.
        """
        if not machines.launchers:
            self._remove(deployment)
            return
        told = dig(cluster, "status", "endpoint")
        body = policy(
            deployment,
            wish,
            machines,
            managers=manager_peers(self._cluster),
            reached=_reached(wish),
            endpoint=EndpointState.model_validate(told) if told else None,
        )
        try:
            self._put(deployment, body)
        except ApiFailure as failure:
            if not failure.refused:
                raise
            message = f"the infra cluster refuses NetworkPolicy {body['metadata']['name']}: {failure.summary}"
            raise IsolationRefused(IsolationReason.REFUSED, message) from failure

    def _put(self, deployment: Json, body: Json) -> None:
        namespace, name = key_of(body)
        known = self._policies.get(namespace, name)
        if known is not None and owned_by(known, deployment) and _same(known, body):
            return
        there = self._cluster.get(NETWORK_POLICY, name, namespace)
        if there is None:
            self._policies.observe(self._cluster.create(NETWORK_POLICY, body))
            return
        if deleting(there) or not owned_by(there, deployment):
            message = f"NetworkPolicy {name} is another's, or still being deleted: delete it, or rename the cluster"
            raise IsolationRefused(IsolationReason.NAME_IN_USE, message)
        if _same(there, body):
            return
        meta = {**there["metadata"], "labels": {**labels_of(there), **labels_of(body)}}
        self._policies.observe(self._cluster.replace(NETWORK_POLICY, {**there, "metadata": meta, "spec": body["spec"]}))

    def _remove(self, deployment: Json) -> None:
        """Delete the policy, if there is one."""
        namespace, name = deployment["metadata"]["namespace"], policy_name(deployment["metadata"]["name"])
        known = self._policies.get(namespace, name)
        if known is not None and owned_by(known, deployment) and not deleting(known):
            self._cluster.delete(NETWORK_POLICY, name, namespace)

    def _write(self, deployment: Json, cluster: Json | None, state: IsolationState | None) -> None:
        """Write the state, if it is another one; an event says what is in the way."""
        if cluster is None:
            return
        told = dig(cluster, "status", "isolation")
        before = IsolationState.model_validate(told) if told else None
        if state == before:
            return
        plain = state.model_dump(mode="json", by_alias=True) if state is not None else None
        self._clusters.merge_status(cluster, {"isolation": plain})
        if state is not None and (before is None or before.reason != state.reason):
            say = self._events.normal if state.ready and state.enforced and not state.bare else self._events.warning
            say(deployment, state.reason, state.message, component=COMPONENT)


def _reached(wish: ClusterDeployment) -> list[Json]:
    """Return rules of what an object names that machines connect to.

    Raises:
        IsolationRefused: a name cannot be resolved, and the object allows no network that may have it.
    """
    rules = []
    for endpoint in reached_by(wish):
        try:
            rules.append(rule_to(endpoint, FIELD))
        except InfraError as error:
            if not tolerates(wish):
                message = f"{error.summary}: {error.hint}"
                raise IsolationRefused(IsolationReason.NOT_RESOLVED, message) from error
    return rules


def _same(existing: Json, body: Json) -> bool:
    """Tell whether a policy says exactly what is wanted: a rule too many opens something."""
    labels = labels_of(body).items() <= labels_of(existing).items()
    return labels and bool(existing.get("spec") == body["spec"])


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(IsolationController(context).controller)
