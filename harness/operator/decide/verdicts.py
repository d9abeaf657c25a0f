"""What is decided: an operation, a wait with its reason, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.operator.api.cluster import AppliedState


class WaitReason(StrEnum):
    """Why nothing begins although something may be to do. docs/operator.md explains each."""

    PAUSED = "Paused"
    OPERATION_RUNNING = "OperationRunning"
    NOT_ACCEPTED = "NotAccepted"
    WAITING_FOR_MACHINES = "WaitingForMachines"
    RETRY_LATER = "RetryLater"
    FAILED = "Failed"
    NOT_SUPPORTED_YET = "NotSupportedYet"


@dataclass(frozen=True)
class Operation:
    """One run of a playbook that should begin now.

    name: of the operation.  entry: the playbook.  why: the difference that it removes.
    disruptive: running machines restart or leave.  machines: names of the Machines that it is about.
    sequence, attempt: its number in the cluster's life, and which try it is; together they name its Job.
    digest: of its inputs.  applies: what is deployed once it has succeeded; None: nothing any more.
    """

    name: str
    entry: str
    why: str
    disruptive: bool
    machines: tuple[str, ...]
    sequence: int
    attempt: int
    digest: str
    applies: AppliedState | None


@dataclass(frozen=True)
class Wait:
    """Nothing begins now.

    message: what is waited for and, where a person must act, how.
    again_seconds: when to decide again, None where only a change of an object can make a difference.
    """

    reason: WaitReason
    message: str
    again_seconds: float | None = None


@dataclass(frozen=True)
class Nothing:
    """There is nothing to do."""


Verdict = Operation | Wait | Nothing
