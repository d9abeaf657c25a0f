"""What there is of a cluster: what was deployed, what runs, what ended, and which machines have trouble."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from harness.kube.objects import stamp
from harness.operator.api.cluster import HISTORY_LENGTH, AppliedState, CurrentOperation, DeclaredCluster, PastOperation
from harness.operator.api.conditions import REACHABLE
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import LEAVING

SUCCEEDED, FAILED, INTERRUPTED = "succeeded", "failed", "interrupted"
RESET = "reset"  # the operation after which nothing is deployed any more


@dataclass(frozen=True)
class Observed:
    """What there is.

    now: the caller's clock.  sequence: of the last operation that began.  running: the operation that runs.
    applied: what was deployed last.  history: the operations that ended, the latest first.
    trouble: by the name of a Machine, why it cannot be used now.
    """

    now: datetime
    sequence: int = 0
    running: CurrentOperation | None = None
    applied: AppliedState | None = None
    history: tuple[PastOperation, ...] = ()
    trouble: Mapping[str, str] = field(default_factory=dict)

    @property
    def touched(self) -> bool:
        """Tell whether something is or may be deployed: a failed operation may have begun anything."""
        if self.applied is not None:
            return True
        last = next((past for past in self.history if not past.untouched), None)
        return last is not None and (last.operation, last.outcome) != (RESET, SUCCEEDED)


def observed(cluster: DeclaredCluster | None, machines: Iterable[DeclaredMachine], now: datetime) -> Observed:
    """Return what the objects of a cluster say; `cluster` is None before there is one."""
    trouble = {machine.metadata.name: said for machine in machines if (said := trouble_of(machine))}
    if cluster is None:
        return Observed(now, trouble=trouble)
    status = cluster.status
    return Observed(now, status.sequence, status.operation, status.applied, status.history, trouble)


def trouble_of(machine: DeclaredMachine) -> str:
    """Return why a machine cannot be used now, "" where nothing speaks against it."""
    if machine.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if why := machine.metadata.annotations.get(LEAVING):
        return f"its claim is given up: {why}"
    found = next((c for c in machine.status.conditions if c.type == REACHABLE), None)
    return found.message or found.reason if found is not None and found.status != "True" else ""


def begun(observed: Observed, operation: CurrentOperation) -> Observed:
    """Return what is observed once an operation has begun."""
    running = operation.model_copy(update={"started": stamp(observed.now)})
    return replace(observed, sequence=operation.sequence, running=running)


def ended(observed: Observed, outcome: str = SUCCEEDED, blame: str | None = None) -> Observed:
    """Return what is observed once the operation that runs has ended. A failed one leaves what was applied before."""
    current = observed.running
    if current is None:
        return observed
    moment = stamp(observed.now)
    past = PastOperation(**current.model_dump(), outcome=outcome, blame=blame, ended=moment)
    applied = current.applies if outcome == SUCCEEDED else observed.applied
    return replace(observed, running=None, applied=applied, history=(past, *observed.history)[:HISTORY_LENGTH])
