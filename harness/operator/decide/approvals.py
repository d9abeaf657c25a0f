"""Numbers of operations, and approvals: a person approves the number that stands in the Cluster's status.

The number belongs to what would be done. If that changes, it gets another one, so an approval that was given for
something else counts for nothing. No operation gets a number that an annotation has already: nobody has approved or
cancelled what nobody has seen yet.
"""

from __future__ import annotations

from itertools import count

from harness.operator.api.cluster import CurrentOperation, PendingApproval
from harness.operator.api.resources import APPROVE_ANNOTATION, CANCEL_ANNOTATION
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed
from harness.operator.decide.waits import Wait, WaitReason


def number_of(digest: str, desired: Desired, observed: Observed) -> int:
    """Return the number of an operation that begins: the one that is to be approved, if that is this one."""
    pending = observed.approval
    if pending is not None and pending.digest == digest:
        return pending.sequence
    number = max(observed.sequence, pending.sequence if pending is not None else 0) + 1
    annotations = desired.wish.metadata.annotations
    taken = {annotations.get(APPROVE_ANNOTATION), annotations.get(CANCEL_ANNOTATION)}
    return next(one for one in count(number) if str(one) not in taken)


def unapproved(operation: CurrentOperation, desired: Desired, observed: Observed) -> Wait | None:
    """Return the wait for a person's approval where the object asks for it; None once it was given."""
    if desired.spec.approval != "Manual":
        return None
    number, pending = str(operation.sequence), observed.approval
    given = desired.wish.metadata.annotations.get(APPROVE_ANNOTATION)
    if given == number and pending is not None and pending.digest == operation.digest:
        return None
    older = f"; {given} was approved, which is another operation" if given not in (None, number) else ""
    text = f"{operation.operation} ({operation.why}) waits for annotation {APPROVE_ANNOTATION}={number}{older}"
    return Wait(WaitReason.WAITING_FOR_APPROVAL, text, approval=pending_of(operation))


def pending_of(operation: CurrentOperation) -> PendingApproval:
    """Return what stands in the Cluster's status while an operation waits for its approval."""
    return PendingApproval(sequence=operation.sequence, operation=operation.operation, digest=operation.digest or "")
