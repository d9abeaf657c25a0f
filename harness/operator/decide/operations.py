"""The one decision: what happens to a cluster next. Pure: the same wish and the same world give the same answer."""

from __future__ import annotations

from collections.abc import Iterator

from harness.operator.api.cluster import PlannedStep
from harness.operator.decide.changes import Due
from harness.operator.decide.desired import Desired
from harness.operator.decide.duties import DUTIES, Duty, applied_by
from harness.operator.decide.effects import ended
from harness.operator.decide.holds import Hold, not_accepted, paused, running
from harness.operator.decide.observed import Observed
from harness.operator.decide.retries import held_back, last_failure
from harness.operator.decide.verdicts import Nothing, Operation, Verdict, Wait, WaitReason

HOLDS: tuple[Hold, ...] = (paused, running, not_accepted)
UNSUPPORTED = "this operator deploys and resets, it does not change a cluster yet: put these fields back"


def next_operation(desired: Desired, observed: Observed) -> Verdict:
    """Return what happens next: the first hold or duty that applies decides."""
    for hold in HOLDS:
        wait = hold(desired, observed)
        if wait is not None:
            return wait
    first = next(_due(desired, observed), None)
    return _begin(*first, desired, observed) if first is not None else Nothing()


def plan(desired: Desired, observed: Observed) -> tuple[PlannedStep, ...]:
    """Return all that is to do, in order, whatever it waits for; after the end of what runs now."""
    if not_accepted(desired, observed) is not None:
        return ()
    if observed.running is not None:
        observed = ended(observed)
    return tuple(
        PlannedStep(
            operation=duty.operation,
            why=due.why if duty.supported else f"{due.why} ({WaitReason.NOT_SUPPORTED_YET})",
            disruptive=duty.disruptive,
            machines=due.machines,
        )
        for duty, due in _due(desired, observed)
    )


def _due(desired: Desired, observed: Observed) -> Iterator[tuple[Duty, Due]]:
    """Yield what is to do, in order."""
    for duty in DUTIES:
        due = duty.due(desired, observed)
        if due is not None:
            yield duty, due


def _begin(duty: Duty, due: Due, desired: Desired, observed: Observed) -> Verdict:
    if not duty.supported:
        wanted = "; ".join(f"{duty.operation}: {due.why}" for duty, due in _due(desired, observed))
        return Wait(WaitReason.NOT_SUPPORTED_YET, f"{UNSUPPORTED}: {wanted}")
    for hold in duty.holds:
        wait = hold(desired, observed)
        if wait is not None:
            return wait
    return held_back(duty.operation, desired, observed) or _operation(duty, due, desired, observed)


def _operation(duty: Duty, due: Due, desired: Desired, observed: Observed) -> Operation:
    """Return the operation, as the next attempt where it only repeats what just failed."""
    failed = last_failure(duty.operation, desired, observed)
    repeats = failed is not None and failed is observed.history[0] and failed.sequence == observed.sequence
    return Operation(
        name=duty.operation,
        entry=duty.entry,
        why=due.why,
        disruptive=duty.disruptive,
        machines=due.machines,
        sequence=observed.sequence if repeats else observed.sequence + 1,
        attempt=failed.attempt + 1 if failed is not None else 1,
        digest=desired.digest,
        applies=applied_by(duty, desired),
    )
