"""What an operation waits for, before any and before its own: each hold returns why it waits, or None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.operator.api.cluster import PendingApproval
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed


class WaitReason(StrEnum):
    """Why nothing begins although something may be to do. docs/operator/operations.md explains each."""

    PAUSED = "Paused"
    OPERATION_RUNNING = "OperationRunning"
    NOT_ACCEPTED = "NotAccepted"
    WAITING_FOR_MACHINES = "WaitingForMachines"
    BACKUP_FIRST = "BackupFirst"
    RETRY_LATER = "RetryLater"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    MAJORITY_AT_RISK = "MajorityAtRisk"
    RESTORE_NOT_NAMED = "RestoreNotNamed"
    RESTORE_NOT_CONFIRMED = "RestoreNotConfirmed"
    NOT_RECOVERABLE = "NotRecoverable"
    NO_SUCH_PHASE = "NoSuchPhase"


@dataclass(frozen=True)
class Wait:
    """Nothing begins now.

    message: what is waited for and, where a person must act, how.
    again_seconds: when to decide again, None where only a change of an object can make a difference.
    approval: what a person is to approve.  confirmation: of a restore, as the annotation has to say it.
    """

    reason: WaitReason
    message: str
    again_seconds: float | None = None
    approval: PendingApproval | None = None
    confirmation: str | None = None


Hold = Callable[[Desired, Observed], Wait | None]


def paused(desired: Desired, observed: Observed) -> Wait | None:
    """Wait while the object says so, even with its deletion."""
    if not desired.spec.paused:
        return None
    then = "; its deletion waits as well" if desired.deleting else ""
    return Wait(WaitReason.PAUSED, f"spec.paused is true{then}")


def running(desired: Desired, observed: Observed) -> Wait | None:
    """Wait for the end of the operation that runs: there is one at a time, and edits count after it."""
    now = observed.running
    if now is None:
        return None
    same = now.applies is None or now.applies.digest == desired.digest
    changed = "" if same else "; the object has changed since, which counts afterwards"
    return Wait(WaitReason.OPERATION_RUNNING, f"{now.operation} runs since {now.started or 'just now'}{changed}")


def not_accepted(desired: Desired, observed: Observed) -> Wait | None:
    """Wait for the correction of an object with mistakes. What is deleted needs no correction."""
    if not desired.refused or desired.deleting:
        return None
    return Wait(WaitReason.NOT_ACCEPTED, "; ".join(desired.refused))
