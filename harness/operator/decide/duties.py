"""What may have to be done to a cluster, in the order in which it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.operator.api.cluster import AppliedState
from harness.operator.decide.changes import Due, differing, joining, leaving, settings
from harness.operator.decide.desired import Desired
from harness.operator.decide.holds import Hold, machines_missing
from harness.operator.decide.observed import RESET, Observed
from harness.operator.decide.variables import Part


@dataclass(frozen=True)
class Duty:
    """One kind of operation.

    operation: its name.  entry: the playbook.  disruptive: running machines restart or leave.
    due: what there is to do, if anything.  holds: what it waits for, besides what all operations wait for.
    supported: this operator carries it out; otherwise it only says what would have to be done.
    """

    operation: str
    entry: str
    disruptive: bool
    due: Callable[[Desired, Observed], Due | None]
    holds: tuple[Hold, ...] = ()
    supported: bool = True


def _reset(desired: Desired, observed: Observed) -> Due | None:
    if not (desired.deleting and desired.reset and observed.touched and desired.machines):
        return None
    return Due("the ClusterDeployment is being deleted", desired.machines)


def _deploy(desired: Desired, observed: Observed) -> Due | None:
    if desired.deleting or observed.applied is not None:
        return None
    return Due("there is no cluster yet", desired.machines)


def _later(find: Callable[[Desired, AppliedState], Due | None]) -> Callable[[Desired, Observed], Due | None]:
    """Return what compares a wish with what was deployed, for a cluster that stays."""

    def due(desired: Desired, observed: Observed) -> Due | None:
        return None if desired.deleting or observed.applied is None else find(desired, observed.applied)

    return due


def _part(part: Part) -> Callable[[Desired, Observed], Due | None]:
    return _later(lambda desired, applied: differing(desired, applied, part))


DUTIES = (
    Duty(RESET, "reset.yml", True, _reset),
    Duty("deploy", "cluster.yml", False, _deploy, holds=(machines_missing,)),
    Duty("remove-node", "remove-node.yml", True, _later(leaving), supported=False),
    Duty("upgrade", "upgrade.yml", True, _part("version"), supported=False),
    Duty("scale", "scale.yml", False, _later(joining), supported=False),
    Duty("reconfigure", "reconfigure.yml", True, _later(settings), supported=False),
    Duty("addons", "addons.yml", False, _part("addons"), supported=False),
)


def applied_by(duty: Duty, desired: Desired) -> AppliedState | None:
    """Return what is deployed once an operation has succeeded; None: nothing any more."""
    if duty.operation == RESET:
        return None
    return AppliedState(
        digest=desired.digest,
        version=desired.version,
        machines=desired.machines,
        digests=dict(desired.digests),
        variables=dict(desired.variables),
    )
