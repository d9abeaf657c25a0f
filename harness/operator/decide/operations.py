"""The one decision: what happens to a cluster next. Pure: the same wish and the same world give the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from harness.operator.api.applied import AppliedState
from harness.operator.api.cluster import CurrentOperation, PlannedStep
from harness.operator.decide.backup_first import BACKUP, asked_for, backup_of, before_upgrade, not_made_yet, with_backup
from harness.operator.decide.changes import Due, differing, joining, leaving, settings
from harness.operator.decide.desired import Desired
from harness.operator.decide.hosts import applied_host
from harness.operator.decide.observed import RESET, Observed, ended
from harness.operator.decide.retries import held_back, last_failure
from harness.operator.decide.waits import Hold, Wait, WaitReason, machines_missing, not_accepted, paused, running

HOLDS: tuple[Hold, ...] = (paused, running, not_accepted)
UNSUPPORTED = "this operator deploys and resets, it does not change a cluster yet: put these fields back"


@dataclass(frozen=True)
class Duty:
    """One kind of operation.

    operation: its name.  entry: the playbook.  disruptive: running machines restart or leave.
    change: what there is to do for a cluster that stays, if anything.
    holds: what it waits for, besides what all operations wait for.
    supported: this operator carries it out; otherwise it only says what would have to be done.
    """

    operation: str
    entry: str
    disruptive: bool
    change: Callable[[Desired, AppliedState], Due | None] = lambda desired, applied: None
    holds: tuple[Hold, ...] = ()
    supported: bool = True


@dataclass(frozen=True)
class Nothing:
    """There is nothing to do."""


Verdict = CurrentOperation | Wait | Nothing
RESETS = Duty(RESET, "reset.yml", True)
DEPLOYS = Duty("deploy", "cluster.yml", False, holds=(machines_missing,))
BACKS_UP = Duty(BACKUP, "backup.yml", False, holds=(not_made_yet,))
DUTIES = (  # in the order in which they are done
    RESETS,
    DEPLOYS,
    Duty("remove-node", "remove-node.yml", True, leaving, supported=False),
    Duty("upgrade", "upgrade.yml", True, partial(differing, part="version"), supported=False),
    Duty("scale", "scale.yml", False, joining, supported=False),
    Duty("reconfigure", "reconfigure.yml", True, settings, supported=False),
    Duty("addons", "addons.yml", False, partial(differing, part="addons"), supported=False),
    BACKS_UP,
)


def next_operation(desired: Desired, observed: Observed) -> Verdict:
    """Return what happens next, the first hold or duty that applies decides: an operation that begins now, or why not.

    The operation has no Job, image and start yet.
    """
    if wait := _first(HOLDS, desired, observed):
        return wait
    due = list(_due(desired, observed))
    if not due:
        return Nothing()
    duty, first = due[0]
    if not duty.supported:
        wanted = "; ".join(f"{duty.operation}: {one.why}" for duty, one in due)
        return Wait(WaitReason.NOT_SUPPORTED_YET, f"{UNSUPPORTED}: {wanted}")
    if held := _first(duty.holds, desired, observed):
        return held
    backup = backup_of(desired, observed) if duty is BACKS_UP else None
    given = with_backup(desired, backup.snapshot() if backup is not None else None)
    if held := held_back(duty.operation, given, observed):
        return held
    made = _operation(duty, first, given, observed)
    return made if backup is None else made.model_copy(update={"snapshot": backup.snapshot()})


def plan(desired: Desired, observed: Observed) -> tuple[PlannedStep, ...]:
    """Return all that is to do, in order, whatever it waits for; after the end of what runs now."""
    if not_accepted(desired, observed) is not None:
        return ()
    return tuple(
        PlannedStep(
            operation=duty.operation,
            why=due.why if duty.supported else f"{due.why} ({WaitReason.NOT_SUPPORTED_YET})",
            disruptive=duty.disruptive,
            machines=due.machines,
        )
        for duty, due in _due(desired, ended(observed))
    )


def _first(holds: tuple[Hold, ...], desired: Desired, observed: Observed) -> Wait | None:
    return next((wait for hold in holds if (wait := hold(desired, observed)) is not None), None)


def _due(desired: Desired, observed: Observed) -> Iterator[tuple[Duty, Due]]:
    """Yield what is to do, in order."""
    applied = observed.applied
    if desired.deleting:
        if desired.spec.deletion.machines == "Reset" and observed.touched and desired.machines:
            yield RESETS, Due("the ClusterDeployment is being deleted", desired.machines)
    elif applied is None:
        yield DEPLOYS, Due("there is no cluster yet", desired.machines)
    else:
        for duty in DUTIES:
            due = asked_for(desired, observed) if duty is BACKS_UP else duty.change(desired, applied)
            if due is None:
                continue
            if duty.operation == "upgrade" and (first := before_upgrade(desired, observed)) is not None:
                yield BACKS_UP, first
            yield duty, due


def _operation(duty: Duty, due: Due, desired: Desired, observed: Observed) -> CurrentOperation:
    """Return the operation, as the next attempt where it only repeats what just failed."""
    failed = last_failure(duty.operation, desired, observed)
    repeats = failed is not None and failed is observed.history[0] and failed.sequence == observed.sequence
    applies = AppliedState(
        digest=desired.digest,
        version=desired.spec.version,
        machines=desired.machines,
        hosts=tuple(applied_host(host) for host in desired.hosts),
        digests=dict(desired.digests),
        variables=dict(desired.variables),
    )
    return CurrentOperation(
        operation=duty.operation,
        why=due.why,
        machines=due.machines,
        sequence=observed.sequence if repeats else observed.sequence + 1,
        attempt=failed.attempt + 1 if failed is not None else 1,
        digest=desired.digest,
        applies=None if duty is RESETS else observed.applied if duty is BACKS_UP else applies,
    )
