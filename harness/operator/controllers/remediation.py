"""Remediation: health of a cluster's machines, and what spec.health asks for, one step of one machine at a time.

A step is written down before it is done, so that a manager that is killed between both does the same, and not another.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, deleting, dig, is_condition, parse_time, stamp, without_condition
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import VMI, Resource
from harness.operator.api.clusterdeployment import HealthPolicy
from harness.operator.api.conditions import HEALTHY, REMEDIATING, new
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, REPLACE_ANNOTATION
from harness.operator.context import OperatorContext
from harness.operator.controllers.infrastructure import instance_of
from harness.operator.controllers.machine_health import Judgement, Treatment, Ward, judge, patients
from harness.operator.controllers.machine_phase import claimed_by, follow_clusters
from harness.operator.controllers.machine_status import steady

SWITCH = Resource("subresources.kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
AGAIN_SECONDS = 5.0  # pacing: an instance that is ended at once is gone within some seconds
NOW = {"gracePeriodSeconds": 0}  # a machine that is hung does not shut down by itself


def uid_of(cluster: Cluster, namespace: str, instance: str) -> str | None:
    """Return the UID of an instance, None if there is none."""
    uid: str | None = dig(cluster.get(VMI, instance, namespace), "metadata", "uid")
    return uid


def restarting(cluster: Cluster, machine: Json) -> float | None:
    """Restart a Machine whose status says so, if that was not done; return the seconds after which to look again."""
    ending = dig(machine, "status", "remediation", "instance")
    if not ending or not is_condition(machine, REMEDIATING, "True"):
        return None
    namespace, name = key_of(machine)[0], instance_of(machine)
    if uid_of(cluster, namespace, name) != ending:
        return None
    try:
        cluster.request("PUT", SWITCH.path(namespace, name, "restart"), body=NOW)  # answered with nothing
    except ApiFailure as failure:
        if not failure.conflict:  # it is on its way already, or its run strategy forbids it: the wait tells them apart
            raise
    return AGAIN_SECONDS


COMPONENT = "remediation-controller"


class Remediation:
    """Judges the machines of clusters, and does one step at a time: there is one worker."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self.controller = Controller("remediation", self.reconcile, workers=1)
        follow(self._machines, self.controller.queue)
        self._machines.subscribe(self._look_at_the_ill)
        for informer in (self._clusters, self._deployments):
            follow_clusters(informer, self._machines, self.controller.queue)

    def _look_at_the_ill(self, _: str, machine: Json) -> None:
        """Judge machines of the same cluster anew: what is done about one depends on how the others are."""
        namespace, name = key_of(machine)[0], dig(machine, "spec", "claim", "cluster")
        for other in claimed_by(self._machines, (namespace, name)) if name else ():
            if is_condition(other, HEALTHY, "False"):
                self.controller.queue.add(key_of(other))

    def reconcile(self, key: Key) -> float | None:
        """Judge one Machine; do one thing about it."""
        machine = self._machines.get(*key)
        if machine is None or deleting(machine):
            return None
        name = dig(machine, "spec", "claim", "cluster")
        cluster, deployment = (kind.get(key[0], name or "") for kind in (self._clusters, self._deployments))
        applied = deployed(claimed_by(self._machines, (key[0], name)), cluster) if name else []
        if deployment is None or cluster is None or key not in map(key_of, applied):
            self._forget(machine)
            return None
        ward = ward_of(deployment, cluster, applied, datetime.now(UTC))
        one = next(found for found in ward.machines if found.name == key[1])
        said = judge(one, ward)
        if said.step is Treatment.REPLACE:
            self._replace(machine, deployment, said)
            return 0.0
        status = status_of(machine, said, ward.now)
        if said.step is Treatment.RESTART:
            uid = uid_of(self._cluster, key[0], instance_of(machine))
            status["remediation"] = {
                "step": Treatment.RESTART,
                "at": stamp(ward.now),
                **({"instance": uid} if uid else {}),
            }
        written = self._machines.merge_status(machine, status)
        if said.step is Treatment.RESTART:
            self._tell(written, deployment, "Restarting", said)
        self._tell_change(machine, written)
        if again := self._restarting(written):
            return again
        return max(0.0, (said.again - ward.now).total_seconds()) if said.again else None

    def _restarting(self, machine: Json) -> float | None:
        try:
            return restarting(self._cluster, machine)
        except VmatrixError as error:
            text = f"it cannot be restarted: {error.summary}"
            self._events.warning(machine, "RestartRefused", text, component=COMPONENT)
            raise

    def _replace(self, machine: Json, deployment: Json, said: Judgement) -> None:
        """Have the decision take the machine out, and its set another."""
        why = said.healthy[2]
        written = self._machines.merge(machine, {"metadata": {"annotations": {REPLACE_ANNOTATION: why}}})
        self._tell(written, deployment, "Replacing", said)

    def _forget(self, machine: Json) -> None:
        """Take off what was said of a machine that is no part of a cluster, or not any more."""
        annotated = REPLACE_ANNOTATION in (machine["metadata"].get("annotations") or {})
        if annotated and not dig(machine, "spec", "claim"):
            machine = self._machines.merge(machine, {"metadata": {"annotations": {REPLACE_ANNOTATION: None}}})
        self._machines.merge_status(machine, {"remediation": None, **without_health(machine)})

    def _tell(self, machine: Json, deployment: Json, reason: str, said: Judgement) -> None:
        name = machine["metadata"]["name"]
        self._events.warning(machine, reason, said.healthy[2], component=COMPONENT)
        self._events.warning(deployment, reason, f"machine {name}: {said.healthy[2]}", component=COMPONENT)

    def _tell_change(self, before: Json, now: Json) -> None:
        """Say when a machine is not healthy any more, and when it is again."""
        old, found = condition(before, HEALTHY) or {}, condition(now, HEALTHY) or {}
        if found.get("status") == "False" and found.get("reason") != old.get("reason"):
            self._events.warning(now, found["reason"], found["message"], component=COMPONENT)
        elif found.get("status") == "True" and old.get("status") == "False":
            self._events.normal(now, "Healthy", found["message"], component=COMPONENT)


def ward_of(deployment: Json, cluster: Json, machines: Iterable[Json], now: datetime) -> Ward:
    """Return a cluster as far as remedies depend on it."""
    policy = HealthPolicy.model_validate(dig(deployment, "spec", "health") or {})
    idle = None
    if deleting(deployment):
        idle = "Deleting", "the cluster is being deleted"
    elif dig(deployment, "spec", "paused"):
        idle = "Paused", "spec.paused is true"
    elif running := dig(cluster, "status", "operation"):
        idle = "OperationRunning", f"{running['operation']} runs, which may restart machines"
    return Ward(policy, patients(machines, _last_end(cluster)), now, idle)


def deployed(machines: Iterable[Json], cluster: Json | None) -> list[Json]:
    """Return those Machines that are a part of a cluster."""
    applied = dig(cluster, "status", "applied", "machines") or ()
    return [machine for machine in machines if machine["metadata"]["name"] in applied]


def status_of(machine: Json, said: Judgement, now: datetime) -> Json:
    """Return the keys of a Machine's status that say how healthy it is."""
    found = [c for c in dig(machine, "status", "conditions") or [] if said.remediating or c["type"] != REMEDIATING]
    wanted = [new(HEALTHY, *said.healthy, now, None)]
    wanted += [new(REMEDIATING, *said.remediating, now, None)] if said.remediating else []
    healed = {"remediation": None} if said.healthy[0] else {}
    return {"conditions": steady(found, wanted), **healed}


def without_health(machine: Json) -> Json:
    """Return the conditions of a Machine's status without those of its health, {} if it has none."""
    found = dig(machine, "status", "conditions") or []
    if not any(c["type"] in {HEALTHY, REMEDIATING} for c in found):
        return {}
    return {"conditions": without_condition(without_condition(found, HEALTHY), REMEDIATING)}


def _last_end(cluster: Json) -> datetime | None:
    """Return when the last operation ended: what it did to nodes before is no sign of their health."""
    ended = next((past.get("ended") for past in dig(cluster, "status", "history") or ()), None)
    return parse_time(ended) if ended else None


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Remediation(context).controller)
