"""Whether a machine of a cluster is healthy, and what is done about one that is not: pure, from evidence alone.

Not knowing is never evidence. A guest's API that does not answer makes its nodes unknown, which nothing follows from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from harness.kube.objects import stamp
from harness.operator.api.health import HealthPolicy
from harness.operator.controllers.patient import Patient

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
