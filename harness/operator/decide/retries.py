"""Failures, remembered by the digest of what an operation was given.

An operation that failed begins again when its inputs change, which the annotation `cluster.vmatrix.dev/retry` is one
of. Where the infrastructure is to blame it begins again by itself, after a delay that grows, at most `jobs.retries`
times.
"""

from __future__ import annotations

from harness.errors import Blame
from harness.kube.objects import parse_time
from harness.operator.api.cluster import CurrentOperation, PastOperation
from harness.operator.api.resources import RETRY_ANNOTATION
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import CANCELLED, INTERRUPTED, RESET, SUCCEEDED, Observed
from harness.operator.decide.waits import Wait, WaitReason

FIRST_SECONDS = 30  # policy: what restarts, such as an API server or an SSH server, is back by then
LONGEST_SECONDS = 600  # policy: a person who repairs something does not wait longer for the next try
REMEDY = f"change the object, or give annotation {RETRY_ANNOTATION} another value, to try again"


def last_failure(operation: str, digest: str, observed: Observed) -> PastOperation | None:
    """Return the last end of an operation with these very inputs if it was a failure, None otherwise."""
    last = next((p for p in observed.history if (p.operation, p.digest) == (operation, digest)), None)
    return last if last is not None and last.outcome != SUCCEEDED else None


def done(operation: str, digest: str, observed: Observed) -> bool:
    """Tell whether an operation with these very inputs has succeeded."""
    same = (p for p in observed.history if (p.operation, p.digest) == (operation, digest))
    return any(p.outcome == SUCCEEDED for p in same)


def held_back(operation: CurrentOperation, desired: Desired, observed: Observed) -> Wait | None:
    """Return why an operation that failed with these very inputs does not begin again now; None if it may."""
    last = last_failure(operation.operation, operation.digest or "", observed)
    if last is None:
        return None
    if last.outcome == CANCELLED:
        return Wait(WaitReason.CANCELLED, f"{last.operation} {last.sequence} was cancelled; {REMEDY}")
    if given_up(last, desired):
        return Wait(WaitReason.FAILED, _failed(last))
    wait = delay_seconds(last.attempt)
    since = (observed.now - parse_time(last.ended)).total_seconds() if last.ended is not None else wait
    left = min(wait - since, wait)  # a clock that was set back makes it no longer
    if left <= 0:
        return None
    attempts = f"attempt {last.attempt + 1} of {desired.spec.jobs.retries + 1} follows"
    said = f"{last.operation} failed, {_cause(last)}; {attempts}"
    return Wait(WaitReason.RETRY_LATER, said, left)


def given_up(last: PastOperation, desired: Desired) -> bool:
    """Tell whether an operation that failed does not begin again by itself with the same inputs."""
    passing = last.blame == Blame.INFRA or last.outcome == INTERRUPTED
    return last.outcome == CANCELLED or not passing or last.attempt > desired.spec.jobs.retries


def delay_seconds(attempt: int) -> int:
    """Return how long to wait after an attempt: twice as long each time."""
    return int(min(FIRST_SECONDS * 2 ** (min(attempt, 10) - 1), LONGEST_SECONDS))


def _failed(last: PastOperation) -> str:
    tried = f" {last.attempt} times" if last.attempt > 1 else ""
    leave = " (or set spec.deletion.machines to Leave)" if last.operation == RESET else ""
    hint = f"; {last.hint}" if last.hint else ""
    return f"{last.operation} failed{tried}, {_cause(last)}{hint}; {REMEDY}{leave}"


def _cause(last: PastOperation) -> str:
    where = f" on {last.host}" if last.host else ""
    task = f" at task {last.task!r}{where}" if last.task else where
    return f"{last.blame or 'nobody known'} to blame{task}: {last.summary or last.outcome}"
