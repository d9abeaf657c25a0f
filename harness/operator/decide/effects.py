"""What operations do to what is observed: they begin, and they end. Controllers write the same into Cluster.status."""

from __future__ import annotations

from dataclasses import replace

from harness.kube.objects import stamp
from harness.operator.api.cluster import HISTORY_LENGTH, CurrentOperation, PastOperation
from harness.operator.decide.observed import SUCCEEDED, Observed
from harness.operator.decide.verdicts import Operation


def begun(observed: Observed, operation: Operation) -> Observed:
    """Return what is observed once an operation has begun."""
    current = CurrentOperation(
        sequence=operation.sequence,
        operation=operation.name,
        attempt=operation.attempt,
        why=operation.why,
        machines=operation.machines,
        digest=operation.digest,
        applies=operation.applies,
        started=stamp(observed.now),
    )
    return replace(observed, sequence=operation.sequence, running=current)


def ended(observed: Observed, outcome: str = SUCCEEDED, blame: str | None = None) -> Observed:
    """Return what is observed once the operation that runs has ended. A failed one leaves what was applied before."""
    current = observed.running
    if current is None:
        return observed
    past = PastOperation(
        sequence=current.sequence,
        attempt=current.attempt,
        operation=current.operation,
        why=current.why,
        outcome=outcome,
        blame=blame,
        started=current.started,
        ended=stamp(observed.now),
        digest=current.digest,
    )
    applied = current.applies if outcome == SUCCEEDED else observed.applied
    return replace(observed, running=None, applied=applied, history=(past, *observed.history)[:HISTORY_LENGTH])
