"""The one decision: what happens to a cluster next. Pure: the same wish and the same world give the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from harness.operator.api.cluster import CurrentOperation, PlannedStep
from harness.operator.decide import backup_first, duties
from harness.operator.decide.approvals import number_of, unapproved
from harness.operator.decide.backup_first import BACKUP
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Due, DueOf, Situation
from harness.operator.decide.observed import ADOPT, RESET, Observed, begun, ended
from harness.operator.decide.phases import no_phase
from harness.operator.decide.restores import restorable
from harness.operator.decide.retries import done, held_back, last_failure
from harness.operator.decide.situation_waits import joining_missing, machines_missing, unsettled
from harness.operator.decide.unsettled import RECOVER
from harness.operator.decide.waits import Hold, Wait, not_accepted, paused, running

HOLDS: tuple[Hold, ...] = (paused, running, not_accepted)
LongHold = Callable[[Situation], Wait | None]
LONGEST_PLAN = 20  # rows of status.plan; a plan is longer only with that many machines to remove one by one


@dataclass(frozen=True)
class Duty:
    """One kind of operation.

    operation: its name.  entry: the playbook.  disruptive: running machines restart or leave.
    due: what there is to do, if anything.  holds: what it waits for, besides what all operations wait for.
    alongside: it may begin while those before it wait.
    """

    operation: str
    entry: str
    disruptive: bool
    due: DueOf
    holds: tuple[LongHold, ...] = ()
    alongside: bool = False


@dataclass(frozen=True)
class Nothing:
    """There is nothing to do."""


Verdict = CurrentOperation | Wait | Nothing
DUTIES = (  # in the order in which they are done; the first three are all there is without a cluster
    Duty(RESET, "reset.yml", True, duties.reset),
    Duty("deploy", "cluster.yml", False, duties.deploy, holds=(machines_missing,)),
    Duty(ADOPT, "adopt.yml", False, duties.adopt, holds=(machines_missing,)),
    Duty(RECOVER, "recover.yml", True, duties.recover, holds=(restorable,)),
    Duty("remove-node", "remove-node.yml", True, duties.remove_node),
    Duty("certificates", "certificates.yml", True, duties.renew, holds=(unsettled,), alongside=True),
    Duty(BACKUP, "backup.yml", False, backup_first.before_upgrade, holds=(backup_first.not_made_yet,)),
    Duty("upgrade", "upgrade.yml", True, duties.upgrade),
    Duty("reconfigure", "reconfigure.yml", True, duties.reconfigure),
    Duty("scale", "scale.yml", False, duties.scale, holds=(joining_missing,)),
    Duty("remove-node", "remove-node.yml", True, duties.remove_later),
    Duty("addons", "addons.yml", False, duties.addons, holds=(unsettled,), alongside=True),
    Duty(BACKUP, "backup.yml", False, backup_first.asked_for, alongside=True),
)
WITHOUT_A_CLUSTER = DUTIES[:3]


def next_operation(desired: Desired, observed: Observed) -> Verdict:
    """Return what happens next, the first hold or duty that applies decides: an operation that begins now, or why not.

    The operation has no Job, image and start yet.
    """
    waits = next((wait for hold in HOLDS if (wait := hold(desired, observed)) is not None), None)
    if waits is not None:
        return waits
    situation = Situation.of(desired, observed)
    for duty, due in _due(situation):
        if waits is not None and not duty.alongside:
            continue
        verdict = _verdict(duty, due, situation)
        if isinstance(verdict, CurrentOperation):
            return verdict
        waits = waits or verdict
    return waits or Nothing()


def plan(desired: Desired, observed: Observed) -> tuple[PlannedStep, ...]:
    """Return all that is to do, in order, whatever it waits for; after the end of what runs now."""
    if not_accepted(desired, observed) is not None:
        return ()
    steps: dict[str, PlannedStep] = {}
    world = replace(ended(observed), history=())
    while len(steps) < LONGEST_PLAN:
        found = ((duty, due, due.digest(duty.operation, desired)) for duty, due in _due(Situation.of(desired, world)))
        duty, due, digest = next((one for one in found if one[2] not in steps), (None, None, ""))
        if duty is None or due is None:
            break
        steps[digest] = PlannedStep(
            operation=duty.operation, why=due.why, disruptive=duty.disruptive, machines=due.machines
        )
        if due.wait is None:
            world = ended(begun(world, _operation(duty, due, desired, world)))
    return tuple(steps.values())


def withdrawn(desired: Desired, observed: Observed) -> bool:
    """Tell whether what waits for an approval is not to be done any more: a later wish has another number."""
    pending = observed.approval
    if pending is None or any(hold(desired, observed) is not None for hold in HOLDS):
        return False
    due = _due(Situation.of(desired, observed))
    return all(one.digest(duty.operation, desired) != pending.digest for duty, one in due)


def due_of(operation: CurrentOperation, desired: Desired, observed: Observed) -> Due | None:
    """Return what an operation that runs is about; None where that is not due any more."""
    situation = Situation.of(desired, replace(observed, running=None))
    found = (due for duty, due in _due(situation) if duty.operation == operation.operation)
    return next((due for due in found if due.digest(operation.operation, desired) == operation.digest), None)


def _due(situation: Situation) -> Iterator[tuple[Duty, Due]]:
    """Yield what is to do, in order."""
    desired, observed = situation.desired, situation.observed
    bare = desired.deleting or observed.applied is None
    for duty in WITHOUT_A_CLUSTER if bare else DUTIES:
        due = duty.due(situation) if duty.operation == RESET or not desired.deleting else None
        if due is not None and not (due.once and done(duty.operation, due.digest(duty.operation, desired), observed)):
            yield duty, due


def _verdict(duty: Duty, due: Due, situation: Situation) -> CurrentOperation | Wait:
    """Return the operation that something due begins with, or what it waits for."""
    desired, observed = situation.desired, situation.observed
    if due.wait is not None:
        return due.wait
    held = next((wait for hold in duty.holds if (wait := hold(situation)) is not None), None)
    held = no_phase(duty.operation, desired) or held
    operation = _operation(duty, due, desired, observed)
    held = held or held_back(operation, desired, observed)
    if held is None and duty.disruptive and duty.operation not in (RESET, RECOVER):  # which is confirmed in any case
        held = unapproved(operation, desired, observed)
    return held or operation


def _operation(duty: Duty, due: Due, desired: Desired, observed: Observed) -> CurrentOperation:
    """Return the operation, as the next attempt where it only repeats what just failed."""
    digest = due.digest(duty.operation, desired)
    failed = last_failure(duty.operation, digest, observed)
    number = number_of(digest, desired, observed)
    repeats = failed is not None and failed is observed.history[0] and failed.sequence in (number, observed.sequence)
    return CurrentOperation(
        operation=duty.operation,
        why=due.why,
        machines=due.machines,
        sequence=failed.sequence if failed is not None and repeats else number,
        attempt=failed.attempt + 1 if failed is not None else 1,
        digest=digest,
        snapshot=due.snapshot,
        applies=due.applies,
    )
