"""End of an execution: how its Job ended or was cancelled, as an entry of the history, with its snapshots; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from harness.errors import Blame
from harness.kube.client import Json
from harness.kube.informer import labels_of
from harness.kube.objects import condition, deleting, dig, is_condition, parse_time
from harness.operator.api.cluster import (
    HISTORY_LENGTH,
    SNAPSHOTS_LENGTH,
    AppliedState,
    CurrentOperation,
    UnsettledState,
)
from harness.operator.api.etcdbackup import SnapshotFacts
from harness.operator.api.resources import CANCEL_ANNOTATION, GIVEN_UP
from harness.operator.decide.observed import ADOPT, CHECKS, RESET, unsettled_after
from harness.operator.execute.inputs import ATTEMPT_LABEL, BACKUP, SEQUENCE_LABEL, log_name
from harness.operator.execute.termination import Outcome, Termination, of_pod


def snapshots_after(known: Sequence[Json], operation: Json, said: Mapping[str, Any]) -> list[Json]:
    """Return the snapshots that there are after an operation that succeeded.

    Args:
        known: those before it.  said: what its executor found out about the one that it took.
    """
    about = operation.get("snapshot")
    if about is None:
        return list(known)
    gone = {(about["claim"], file) for file in about.get("forget") or ()}
    if operation["operation"] != BACKUP:
        return [one for one in known if (one["claim"], one["file"]) not in gone]
    gone.add((about["claim"], about["file"]))
    place = {name: about[name] for name in ("backup", "uid", "claim", "file")}
    kept = [one for one in known if (one["claim"], one["file"]) not in gone]
    return [{**place, **_facts(said)}, *kept][:SNAPSHOTS_LENGTH]


def _facts(said: Mapping[str, Any]) -> Json:
    """Return facts as a status has them; none where the executor's words have another form."""
    try:
        made: Json = SnapshotFacts.model_validate(dict(said)).model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValidationError:
        return {}
    return made


COMPLETE, FAILED = "Complete", "Failed"
SUCCEEDED: Outcome = "succeeded"
SEE_LOG = "`vmatrix operator log` shows its output"


def has_ended(job: Json) -> bool:
    """Tell whether a Job has ended and none of its pods lives any more."""
    return is_condition(job, COMPLETE, "True") or is_condition(job, FAILED, "True")


def is_given_up(job: Json) -> bool:
    """Tell whether a Job was given up before its executor was started."""
    return bool(dig(job, "metadata", "annotations", GIVEN_UP))


def ended_at(job: Json) -> str | None:
    """Return when a Job ended, by its own account."""
    failed = condition(job, FAILED) or {}
    return dig(job, "status", "completionTime") or failed.get("lastTransitionTime")


def lasted(entry: Json) -> float | None:
    """Return the seconds that an operation of the history took; None where its Job never ran."""
    started, ended = entry.get("started"), entry.get("ended")
    return (parse_time(ended) - parse_time(started)).total_seconds() if started and ended else None


def termination_of(job: Json, pods: Sequence[Json], kept: Callable[[], Termination | None]) -> Termination:
    """Return how a Job ended: in its program's own words where there are some, else in its pod's or its own.

    Args:
        pods: of the Job, as far as they are there, the latest first.
        kept: returns what the program left beside its log.
    """
    statuses = (status for pod in pods for status in dig(pod, "status", "containerStatuses") or [])
    messages = (dig(status, "state", "terminated", "message") for status in statuses)
    told = next((said for text in messages if (said := Termination.parse(text or "")) is not None), None) or kept()
    if told is not None:
        return told
    if is_condition(job, COMPLETE, "True"):
        return Termination(SUCCEEDED)
    reason = (condition(job, FAILED) or {}).get("reason")
    if reason == "DeadlineExceeded":
        seconds = dig(job, "spec", "activeDeadlineSeconds")
        summary = f"the operation did not end within {seconds} s"
        hint = f"raise spec.jobs.deadlineSeconds, or see what it waited for: {SEE_LOG}"
        return Termination("failed", blame=Blame.PRODUCT, summary=summary, hint=hint)
    return of_pod(pods[0] if pods else None)


def deleted() -> Termination:
    """Return the end of an operation whose Job somebody deleted."""
    summary, hint = "somebody deleted the Job before it ended", "the operation is repeated; pause it with spec.paused"
    return Termination("interrupted", blame=Blame.USER, summary=summary, hint=hint)


def past(operation: Json, end: Termination, started: str | None, ended: str | None, *, untouched: bool = False) -> Json:
    """Return the entry of the history; `started` and `ended` are the Job's.

    An executor that was killed has said where it was while it ran.

    Args:
        untouched: the executor was never started. It has touched nothing, either, if it failed where it only checks.
    """
    said = {name: getattr(end, name) for name in ("outcome", "blame", "play", "task", "host", "summary", "hint")}
    if end.outcome != SUCCEEDED and not (end.play or end.task):
        said |= {name: operation.get(name) for name in ("play", "task")}
    same = {name: operation.get(name) for name in ("sequence", "attempt", "operation", "why", "digest")}
    made = {**same, **said, "started": started, "ended": ended}
    made |= {"backup": dig(operation, "snapshot", "backup"), "backupUid": dig(operation, "snapshot", "uid")}
    only_looked = operation["operation"] == ADOPT and end.outcome != SUCCEEDED
    before_anything = end.play in CHECKS.get(operation["operation"], ())
    checked = only_looked or (end.outcome == "failed" and bool(end.host) and before_anything)
    made |= {"untouched": True} if untouched or checked else {}
    made |= {} if untouched else {"log": log_name(operation["job"])}
    return {name: value for name, value in made.items() if value not in (None, "")}


def after(status: Json, entry: Json, snapshot: Mapping[str, Any] | None = None) -> Json:
    """Return a Cluster's status once its operation has ended; `snapshot`: what it said of the one that it took."""
    operation, applied, unsettled = status["operation"], status.get("applied"), status.get("unsettled")
    made = {**status, "history": _kept([entry, *(status.get("history") or [])]), "operation": None}
    if not entry.get("untouched"):
        left = unsettled_after(
            UnsettledState.model_validate(unsettled) if unsettled else None,
            AppliedState.model_validate(applied) if applied else None,
            CurrentOperation.model_validate(operation),
            entry["outcome"],
        )
        made["unsettled"] = left and left.model_dump(mode="json", by_alias=True, exclude_none=True)
    if entry["outcome"] == SUCCEEDED:
        made["applied"] = None if operation["operation"] == RESET else operation.get("applies") or applied
        made["snapshots"] = snapshots_after(status.get("snapshots") or [], operation, snapshot or {}) or None
        made["approval"] = None if _was_approved(status) else status.get("approval")
    return {name: value for name, value in made.items() if value is not None}


def _was_approved(status: Json) -> bool:
    digest = dig(status, "approval", "digest")
    return digest is not None and digest == status["operation"].get("digest")


def forgotten(status: Json, entry: Json) -> list[str]:
    """Return the logs of the operations for which an end leaves no room in the history."""
    history = status.get("history") or []
    kept = _kept([entry, *history])
    return [old["log"] for old in history if old not in kept and old.get("log")]


def _kept(history: list[Json]) -> list[Json]:
    """Return the latest operations, and among them always the last that touched a machine: a reset follows from it."""
    latest = history[:HISTORY_LENGTH]
    touched = next((entry for entry in history if not entry.get("untouched")), None)
    return latest if touched is None or touched in latest else [*latest[:-1], touched]


def told(operation: Json, entry: Json) -> str:
    """Return the end of an operation in one line for people."""
    if entry["outcome"] == SUCCEEDED:
        return f"{operation['operation']} succeeded (Job {operation['job']})"
    where = f" at task {entry['task']!r}" if entry.get("task") else ""
    where += f" on {entry['host']}" if entry.get("host") else ""
    blame = f" ({entry['blame']} to blame)" if entry.get("blame") else ""
    said = entry.get("summary", entry["outcome"])
    return f"{operation['operation']} failed{where}{blame}: {said} (Job {operation['job']})"


def surplus(jobs: Iterable[Json], *, keep_failed: int, keep_succeeded: int) -> list[Json]:
    """Return the Jobs to delete: those given up, and of those that ended well and of the others all but the latest few.

    Args:
        jobs: of one cluster that no operation runs of.
    """
    jobs = [job for job in jobs if not deleting(job)]
    ended = [job for job in jobs if has_ended(job) and not is_given_up(job)]
    ended.sort(key=_number, reverse=True)
    good = [job for job in ended if is_condition(job, COMPLETE, "True")]
    bad = [job for job in ended if not is_condition(job, COMPLETE, "True")]
    return [*good[keep_succeeded:], *bad[keep_failed:], *filter(is_given_up, jobs)]


def _number(job: Json) -> tuple[int, int]:
    """Return a Job's place in its cluster's life: two Jobs may end within the same second."""
    sequence, attempt = (labels_of(job).get(label, "") for label in (SEQUENCE_LABEL, ATTEMPT_LABEL))
    return int(sequence or 0), int(attempt or 0)


HINT = "it is not tried again before the object changes"


def is_cancelled(deployment: Json | None, operation: Json) -> bool:
    """Tell whether somebody wants an operation to be stopped. A number of another operation counts for nothing."""
    asked = dig(deployment, "metadata", "annotations", CANCEL_ANNOTATION)
    return asked is not None and asked == str(operation["sequence"])


def cancelled(end: Termination | None = None) -> Termination:
    """Return the end of an operation that was stopped; one that had succeeded before that has succeeded.

    Args:
        end: what its executor said; None if it never began.
    """
    if end is not None and end.outcome == "succeeded":
        return end
    summary = "somebody stopped it by annotation"
    said = f"{summary}; {end.summary}" if end is not None and end.summary else summary
    return replace(end or Termination("cancelled"), outcome="cancelled", blame=Blame.USER, summary=said, hint=HINT)
