"""Health of a machine: whether it is healthy and what to do about it, from its conditions alone; pure.

Not knowing is never evidence. A guest's API that does not answer makes its nodes unknown, which nothing follows from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from harness.kube.client import Json
from harness.kube.objects import condition, dig, parse_time, stamp
from harness.operator.api.clusterdeployment import HealthPolicy
from harness.operator.api.conditions import ANSWERING, INFRASTRUCTURE_READY, NODE_READY
from harness.operator.api.resources import REPLACE_ANNOTATION
from harness.operator.api.sets import CONTROL_PLANE, ETCD
from harness.operator.controllers.infrastructure import instance_of
from harness.operator.controllers.machine_phase import has_node

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
        said = {self.infrastructure, self.answers}
        return True in said and False not in said

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
    found = list(machines)
    stacked = not any(ETCD in _roles(machine) for machine in found)
    return [_patient(machine, calm, stacked=stacked) for machine in found]


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


Said = tuple[bool | None, str, str]  # a condition's status, reason and message


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

    def others(self, one: Patient) -> list[Patient]:
        """Return the other machines of the cluster."""
        return [other for other in self.machines if other.name != one.name]

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


def judge(one: Patient, ward: Ward) -> Judgement:
    """Return what is said of a machine and done about it."""
    healthy = health(one, ward)
    if one.replace:
        return Judgement(healthy, (True, "Replacing", one.replace))
    if healthy[0] is not False or not one.node or ward.policy.remediation == "None":
        return Judgement(healthy)
    for hold in HOLDS:
        if found := hold(one, ward):
            return Judgement(healthy, *found)
    return _next_step(healthy, one, ward)


def health(one: Patient, ward: Ward) -> Said:
    """Return whether a machine is healthy, with the evidence."""
    gone = gone_or_hung(one, ward)
    if one.ready:
        return True, "NodeReady", one.node_says
    if not one.node:
        unknown = None, "NotKnown", "it is no node, and nothing says whether it runs"
        return (False, "NotRunning", gone) if gone else (True, "Running", one.running_says) if one.runs else unknown
    if one.ready is None:
        return None, "NodeUnknown", one.node_says
    since = f"its node is not ready since {stamp(one.since or ward.now)}: {one.node_says}"
    if gone:
        return False, "Gone" if one.infrastructure is False else "Hung", f"{since}; {gone}"
    return False, "NodeNotReady", f"{since}; {one.running_says}"


def gone_or_hung(one: Patient, ward: Ward) -> str:
    """Return what says, besides its node, that a machine is gone or hung; "" if nothing does.

    That it answers no login counts only while another machine of the cluster answers: else it is the way that is cut.
    """
    if one.infrastructure is False:
        return f"the infrastructure: {one.infrastructure_says}"
    if one.answers is False and any(other.answers for other in ward.others(one)):
        return f"it answers no login: {one.answers_says}"
    return ""


def _lost(one: Patient, _: Ward) -> tuple[Said] | None:
    """Leave a machine that is gone for good to the decision about the cluster: it is taken out whatever the policy."""
    return ((False, "Lost", "its cluster goes on without it, as its plan says"),) if one.lost else None


def _idle(_: Patient, ward: Ward) -> tuple[Said] | None:
    return ((False, *ward.idle),) if ward.idle else None


def _unconfirmed(one: Patient, ward: Ward) -> tuple[Said] | None:
    """Do nothing while only the node says that something is wrong."""
    if gone_or_hung(one, ward):
        return None
    return ((False, "NotConfirmed", "neither the infrastructure nor a login says that the machine is gone or hung"),)


def _too_early(one: Patient, ward: Ward) -> tuple[Said, Treatment, datetime] | None:
    due = (one.since or ward.now) + ward.after
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


def _breaks(one: Patient, ward: Ward) -> tuple[Said] | None:
    """Do nothing that would leave the cluster without a control plane, or etcd without its majority."""
    if one.control_plane and not any(other.ready and other.control_plane for other in ward.others(one)):
        return ((False, "LastControlPlane", "no other control plane is ready"),)
    if not one.etcd:
        return None
    members = [other for other in ward.machines if other.etcd]
    well = [other.name for other in members if other is not one and (other.ready if other.node else other.runs)]
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


def _next_step(healthy: Said, one: Patient, ward: Ward) -> Judgement:
    """Restart what can be, wait, replace what that did not help."""
    evidence = healthy[2]
    if one.restarted is None and one.virtual:
        return Judgement(healthy, (True, "Restarting", evidence), Treatment.RESTART)
    if one.restarted is not None and ward.now < (due := one.restarted + ward.after):
        why = f"it was restarted at {stamp(one.restarted)}; its node has until {stamp(due)}"
        return Judgement(healthy, (True, "Restarted", why), again=due)
    if ward.policy.remediation == "Replace":
        return Judgement(healthy, (True, "Replacing", evidence), Treatment.REPLACE)
    if one.restarted is not None:
        why = f"it was restarted at {stamp(one.restarted)}, which did not help; spec.health.remediation: Replace would"
        return Judgement(healthy, (False, "RestartDidNotHelp", why))
    why = "it is no virtual machine of this cluster: restart it by hand, or set spec.health.remediation to Replace"
    return Judgement(healthy, (False, "CannotRestart", why))
