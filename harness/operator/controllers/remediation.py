"""Remediation: health of a cluster's machines, and what spec.health asks for, one step of one machine at a time.

A step is written down before it is done, so that a manager that is killed between both does the same, and not another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, deleting, dig, is_condition, parse_time, stamp, without_condition
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import VMI, Resource
from harness.operator.api.clusterdeployment import HealthPolicy
from harness.operator.api.conditions import (
    ANSWERING,
    HEALTHY,
    INFRASTRUCTURE_READY,
    NODE_READY,
    REMEDIATING,
    Said,
    new,
)
from harness.operator.api.resources import CLUSTER, MACHINE, REPLACE_ANNOTATION
from harness.operator.api.sets import CONTROL_PLANE, ETCD
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import Declarations
from harness.operator.controllers.infrastructure import instance_of
from harness.operator.controllers.machine import steady
from harness.operator.controllers.machine_phase import claimed_by, follow_clusters, has_node

LOST = "Lost"  # the reason with which InfrastructureReady says that a machine does not come back
TRUTH = {"True": True, "False": False}


@dataclass(frozen=True)
class Patient:
    """One machine.

    node: it has one.  ready: the node is, None where the guest's API does not say.  since: when it became not ready.
    infrastructure, answers: what the infrastructure says, and whether it answers a login; None where nobody knows.
    lost: the infrastructure says that it does not come back.  virtual: it can be restarted.
    restarted: when that was last done.  replace: why it is to be replaced, "" if it is not.
    """

    name: str
    node: bool = True
    control_plane: bool = False
    etcd: bool = False
    ready: bool | None = None
    since: datetime | None = None
    infrastructure: bool | None = None
    answers: bool | None = None
    lost: bool = False
    virtual: bool = False
    restarted: datetime | None = None
    replace: str = ""
    node_says: str = ""
    infrastructure_says: str = ""
    answers_says: str = ""

    @property
    def runs(self) -> bool:
        """Tell whether something says that the machine runs, and nothing that it does not."""
        evidence = {self.infrastructure, self.answers}
        return True in evidence and False not in evidence

    @property
    def running_says(self) -> str:
        """Return what says that the machine runs, in words."""
        words = [self.answers_says if self.answers else "", self.infrastructure_says if self.infrastructure else ""]
        return "; ".join(filter(None, words)) or "nothing is known of the machine besides"


def patients(machines: Iterable[Json], calm: datetime | None = None) -> list[Patient]:
    """Return what is known of all machines of one cluster.

    Args:
        calm: when its last operation ended; that a node was not ready before does not count.
    """
    known_machines = list(machines)
    stacked = not any(ETCD in _roles(machine) for machine in known_machines)
    return [_patient(machine, calm, stacked=stacked) for machine in known_machines]


def _patient(machine: Json, calm: datetime | None, *, stacked: bool) -> Patient:
    roles = _roles(machine)
    node, infra, login = (condition(machine, k) or {} for k in (NODE_READY, INFRASTRUCTURE_READY, ANSWERING))
    restarted = dig(machine, "status", "remediation", "at")
    turned = parse_time(node["lastTransitionTime"]) if node.get("lastTransitionTime") else None
    control_plane = CONTROL_PLANE in roles
    return Patient(
        name=machine["metadata"]["name"],
        node=has_node(roles),
        control_plane=control_plane,
        etcd=ETCD in roles or (stacked and control_plane),
        ready=TRUTH.get(node.get("status", "")),
        since=max(turned, calm) if turned is not None and calm is not None else turned,
        infrastructure=TRUTH.get(infra.get("status", "")),
        answers=TRUTH.get(login.get("status", "")),
        lost=infra.get("status") == "False" and infra.get("reason") == LOST,
        virtual=bool(instance_of(machine)),
        restarted=parse_time(restarted) if restarted else None,
        replace=(machine["metadata"].get("annotations") or {}).get(REPLACE_ANNOTATION, ""),
        node_says=node.get("message") or "nothing is known of its node",
        infrastructure_says=infra.get("message", ""),
        answers_says=login.get("message", ""),
    )


def _roles(machine: Json) -> list[str]:
    return dig(machine, "status", "roles") or []


class Treatment(StrEnum):
    """What is done about a machine."""

    NOTHING = "Nothing"
    RESTART = "Restart"
    REPLACE = "Replace"


@dataclass(frozen=True)
class Ward:
    """A cluster as far as remedies depend on it.

    machines: all that were deployed.  idle: why nothing may be done to any machine now, as (reason, message).
    """

    policy: HealthPolicy
    machines: Sequence[Patient]
    now: datetime
    idle: tuple[str, str] | None = None

    def others(self, patient: Patient) -> list[Patient]:
        """Return the other machines of the cluster."""
        return [other for other in self.machines if other.name != patient.name]

    @property
    def after(self) -> timedelta:
        """Return how long a node is not ready before anything is done, and how long a restart may take."""
        return timedelta(seconds=self.policy.after_seconds)


@dataclass(frozen=True)
class Judgement:
    """What is said of a machine and done about it.

    healthy, remediating: conditions; the second is None where there is nothing to say.
    again: when to judge anew although nothing changed.
    """

    healthy: Said
    remediating: Said | None = None
    step: Treatment = Treatment.NOTHING
    again: datetime | None = None


def judge(patient: Patient, ward: Ward) -> Judgement:
    """Return what is said of a machine and done about it."""
    healthy = health(patient, ward)
    if patient.replace:
        return Judgement(healthy, (True, "Replacing", patient.replace))
    if healthy[0] is not False or not patient.node or ward.policy.remediation == "None":
        return Judgement(healthy)
    for hold in HOLDS:
        if answer := hold(patient, ward):
            return Judgement(healthy, *answer)
    return _next_step(healthy, patient, ward)


def health(patient: Patient, ward: Ward) -> Said:
    """Return whether a machine is healthy, with the evidence."""
    gone = gone_or_hung(patient, ward)
    if patient.ready and patient.infrastructure is False:
        return None, "NodeOutdated", f"its node says so: {patient.node_says}; but {gone}"
    if patient.ready:
        return True, "NodeReady", patient.node_says
    if not patient.node:
        unknown = None, "NotKnown", "it is not a node, and nothing says whether it runs"
        return (
            (False, "NotRunning", gone)
            if gone
            else (True, "Running", patient.running_says)
            if patient.runs
            else unknown
        )
    if patient.ready is None:
        return None, "NodeUnknown", patient.node_says
    since = f"its node is not ready since {stamp(patient.since or ward.now)}: {patient.node_says}"
    if gone:
        return False, "Gone" if patient.infrastructure is False else "Hung", f"{since}; {gone}"
    return False, "NodeNotReady", f"{since}; {patient.running_says}"


def gone_or_hung(patient: Patient, ward: Ward) -> str:
    """Return what says, besides its node, that a machine is gone or hung; "" if nothing does.

    That it answers no login counts only while another machine of the cluster answers: else it is the way that is cut.
    """
    if patient.infrastructure is False:
        return f"the infrastructure: {patient.infrastructure_says}"
    if patient.answers is False and any(other.answers for other in ward.others(patient)):
        return f"it answers no login: {patient.answers_says}"
    return ""


def _lost(patient: Patient, _: Ward) -> tuple[Said] | None:
    """Leave a machine that is gone for good to the decision about the cluster: it is taken out whatever the policy."""
    return ((False, "Lost", "its cluster goes on without it, as its plan says"),) if patient.lost else None


def _idle(_: Patient, ward: Ward) -> tuple[Said] | None:
    return ((False, *ward.idle),) if ward.idle else None


def _unconfirmed(patient: Patient, ward: Ward) -> tuple[Said] | None:
    """Do nothing while only the node says that something is wrong."""
    if gone_or_hung(patient, ward):
        return None
    return ((False, "NotConfirmed", "neither the infrastructure nor a login says that the machine is gone or hung"),)


def _too_early(patient: Patient, ward: Ward) -> tuple[Said, Treatment, datetime] | None:
    due = (patient.since or ward.now) + ward.after
    if ward.now >= due:
        return None
    why = f"something is done at {stamp(due)}, if its node is still not ready then"
    return (False, "Waiting", why), Treatment.NOTHING, due


def _too_many(_: Patient, ward: Ward) -> tuple[Said] | None:
    ill = sorted(other.name for other in ward.machines if health(other, ward)[0] is False)
    limit = ward.policy.max_unhealthy
    if len(ill) <= limit:
        return None
    why = f"{len(ill)} machines are not healthy ({', '.join(ill)}), spec.health.maxUnhealthy is {limit}"
    return ((False, "TooManyUnhealthy", why),)


def _breaks(patient: Patient, ward: Ward) -> tuple[Said] | None:
    """Do nothing that would leave the cluster without a control plane, or etcd without its majority."""
    if patient.control_plane and not any(other.ready and other.control_plane for other in ward.others(patient)):
        return ((False, "LastControlPlane", "no other control plane is ready"),)
    if not patient.etcd:
        return None
    members = [other for other in ward.machines if other.etcd]
    well = [other.name for other in members if other is not patient and (other.ready if other.node else other.runs)]
    needed = len(members) // 2 + 1
    if len(well) >= needed:
        return None
    why = f"etcd has {len(members)} members and needs {needed}; without it {len(well)} are well"
    return ((False, "EtcdMajority", why),)


HOLDS: tuple[Callable[[Patient, Ward], tuple[Said] | tuple[Said, Treatment, datetime] | None], ...] = (
    _lost,
    _idle,
    _unconfirmed,
    _too_early,
    _too_many,
    _breaks,
)


def _next_step(healthy: Said, patient: Patient, ward: Ward) -> Judgement:
    """Restart what can be, wait, replace what that did not help."""
    evidence = healthy[2]
    if patient.restarted is None and patient.virtual:
        return Judgement(healthy, (True, "Restarting", evidence), Treatment.RESTART)
    if patient.restarted is not None and ward.now < (due := patient.restarted + ward.after):
        why = f"it was restarted at {stamp(patient.restarted)}; its node has until {stamp(due)}"
        return Judgement(healthy, (True, "Restarted", why), again=due)
    if ward.policy.remediation == "Replace":
        return Judgement(healthy, (True, "Replacing", evidence), Treatment.REPLACE)
    if patient.restarted is not None:
        remedy = "spec.health.remediation: Replace would"
        why = f"it was restarted at {stamp(patient.restarted)}, which did not help; {remedy}"
        return Judgement(healthy, (False, "RestartDidNotHelp", why))
    why = "it is not a virtual machine of this cluster: restart it by hand, or set spec.health.remediation to Replace"
    return Judgement(healthy, (False, "CannotRestart", why))


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
        self._deployments = Declarations(context.informers)
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
        patient = next(candidate for candidate in ward.machines if candidate.name == key[1])
        judgement = judge(patient, ward)
        if judgement.step is Treatment.REPLACE:
            self._replace(machine, deployment, judgement)
            return 0.0
        status = status_of(machine, judgement, ward.now)
        if judgement.step is Treatment.RESTART:
            uid = uid_of(self._cluster, key[0], instance_of(machine))
            status["remediation"] = {
                "step": Treatment.RESTART,
                "at": stamp(ward.now),
                **({"instance": uid} if uid else {}),
            }
        written = self._machines.merge_status(machine, status)
        if judgement.step is Treatment.RESTART:
            self._tell(written, deployment, "Restarting", judgement)
        self._tell_change(machine, written)
        if again := self._restarting(written):
            return again
        return max(0.0, (judgement.again - ward.now).total_seconds()) if judgement.again else None

    def _restarting(self, machine: Json) -> float | None:
        try:
            return restarting(self._cluster, machine)
        except VmatrixError as error:
            text = f"it cannot be restarted: {error.summary}"
            self._events.warning(machine, "RestartRefused", text, component=COMPONENT)
            raise

    def _replace(self, machine: Json, deployment: Json, judgement: Judgement) -> None:
        """Have the decision take the machine out, and its set another."""
        why = judgement.healthy[2]
        written = self._machines.merge(machine, {"metadata": {"annotations": {REPLACE_ANNOTATION: why}}})
        self._tell(written, deployment, "Replacing", judgement)

    def _forget(self, machine: Json) -> None:
        """Take off what was said of a machine that is not a part of a cluster, or not any more."""
        annotated = REPLACE_ANNOTATION in (machine["metadata"].get("annotations") or {})
        if annotated and not dig(machine, "spec", "claim"):
            machine = self._machines.merge(machine, {"metadata": {"annotations": {REPLACE_ANNOTATION: None}}})
        self._machines.merge_status(machine, {"remediation": None, **without_health(machine)})

    def _tell(self, machine: Json, deployment: Json, reason: str, judgement: Judgement) -> None:
        name = machine["metadata"]["name"]
        self._events.warning(machine, reason, judgement.healthy[2], component=COMPONENT)
        self._events.warning(deployment, reason, f"machine {name}: {judgement.healthy[2]}", component=COMPONENT)

    def _tell_change(self, before: Json, now: Json) -> None:
        """Say when a machine is not healthy any more, and when it is again."""
        old, now_healthy = condition(before, HEALTHY) or {}, condition(now, HEALTHY) or {}
        if now_healthy.get("status") == "False" and now_healthy.get("reason") != old.get("reason"):
            self._events.warning(now, now_healthy["reason"], now_healthy["message"], component=COMPONENT)
        elif now_healthy.get("status") == "True" and old.get("status") == "False":
            self._events.normal(now, "Healthy", now_healthy["message"], component=COMPONENT)


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


def status_of(machine: Json, judgement: Judgement, now: datetime) -> Json:
    """Return the keys of a Machine's status that say how healthy it is."""
    conditions = [
        c for c in dig(machine, "status", "conditions") or [] if judgement.remediating or c["type"] != REMEDIATING
    ]
    expected = [new(HEALTHY, *judgement.healthy, now, None)]
    expected += [new(REMEDIATING, *judgement.remediating, now, None)] if judgement.remediating else []
    healed = {"remediation": None} if judgement.healthy[0] else {}
    return {"conditions": steady(conditions, expected), **healed}


def without_health(machine: Json) -> Json:
    """Return the conditions of a Machine's status without those of its health, {} if it has none."""
    conditions = dig(machine, "status", "conditions") or []
    if not any(c["type"] in {HEALTHY, REMEDIATING} for c in conditions):
        return {}
    return {"conditions": without_condition(without_condition(conditions, HEALTHY), REMEDIATING)}


def _last_end(cluster: Json) -> datetime | None:
    """Return when the last operation ended: what it did to nodes before is not a sign of their health."""
    ended = next((past.get("ended") for past in dig(cluster, "status", "history") or ()), None)
    return parse_time(ended) if ended else None


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Remediation(context).controller)
