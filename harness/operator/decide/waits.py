"""What an operation waits for, before any and before its own: each hold returns why it waits, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.operator.api.sets import WantedSet
from harness.operator.decide.backups import digest_with
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed


class WaitReason(StrEnum):
    """Why nothing begins although something may be to do. docs/operator.md explains each."""

    PAUSED = "Paused"
    OPERATION_RUNNING = "OperationRunning"
    NOT_ACCEPTED = "NotAccepted"
    WAITING_FOR_MACHINES = "WaitingForMachines"
    BACKUP_FIRST = "BackupFirst"
    RETRY_LATER = "RetryLater"
    FAILED = "Failed"
    NOT_SUPPORTED_YET = "NotSupportedYet"


@dataclass(frozen=True)
class Wait:
    """Nothing begins now.

    message: what is waited for and, where a person must act, how.
    again_seconds: when to decide again, None where only a change of an object can make a difference.
    """

    reason: WaitReason
    message: str
    again_seconds: float | None = None


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
    same = now.digest == digest_with(desired.digest, now.snapshot)
    changed = "" if same else "; the object has changed since, which counts afterwards"
    return Wait(WaitReason.OPERATION_RUNNING, f"{now.operation} runs since {now.started or 'just now'}{changed}")


def not_accepted(desired: Desired, observed: Observed) -> Wait | None:
    """Wait for the correction of an object with mistakes. What is deleted needs no correction."""
    if not desired.refused or desired.deleting:
        return None
    return Wait(WaitReason.NOT_ACCEPTED, "; ".join(desired.refused))


def machines_missing(desired: Desired, observed: Observed) -> Wait | None:
    """Wait until each set has claimed as many machines as it wants, and all of them can be used."""
    said = [text for one in desired.spec.machine_sets for text in _of_set(desired, one)]
    lost = [host for host in desired.hosts if not host.groups]
    said += [f"machine {host.machine} still to leave: there is no set {host.set_name}" for host in lost]
    said += [f"machine {name}: {observed.trouble[name]}" for name in desired.machines if name in observed.trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(said)) if said else None


def _of_set(desired: Desired, one: WantedSet) -> Iterator[str]:
    """Yield what a set lacks, or has too much of."""
    have = [host.machine for host in desired.hosts if host.set_name == one.name]
    lacking = one.replicas - len(have)
    if one.machines.names is not None:
        absent = [name for name in one.machines.names if name not in have]
        if absent:
            yield f"set {one.name} waits for {', '.join(absent)}: not there, or not free"
    elif lacking > 0:
        yield f"set {one.name} has {len(have)} of {one.replicas} machines: {lacking} missing"
    if lacking < 0:
        yield f"set {one.name} has {len(have)} of {one.replicas} machines: {-lacking} still to leave"
