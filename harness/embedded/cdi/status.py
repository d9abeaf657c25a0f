"""A DataVolume's status as a function of the DataVolume, its claim and the transfer's progress.

Nothing here talks to anybody. Rules: phases follow the claim and the pod whose phase stands in the claim's
annotations; a phase that was passed too quickly to be seen is still gone through; `Failed` is reached by a fatal error
or a lost claim alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.embedded.cdi import names
from harness.embedded.cdi.claims import clone_source
from harness.embedded.events import NORMAL, WARNING
from harness.embedded.objects import condition, phase
from harness.kube.client import Json

DONE = "100.0%"
UNKNOWN_PROGRESS = "N/A"
POD_RUNNING_REASON = "Pod is running"
FINAL = frozenset({"Succeeded", "Failed"})
WAITING = "WaitForFirstConsumer"


@dataclass(frozen=True)
class Notice:
    """An event to tell: its type, reason and message."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Change:
    """One status to write, and the events that go with it."""

    status: Json
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class Words:
    """How an import or a clone calls its phases and events."""

    scheduled: str
    in_progress: str
    succeeded: str
    failed: str
    messages: tuple[str, str, str, str]

    def notice(self, reached: str) -> Notice | None:
        """Return the event that goes with reaching a phase."""
        reasons = (self.scheduled, self.in_progress, "Succeeded", "Failed")
        if reached not in reasons:
            return None
        number = reasons.index(reached)
        reason = (self.scheduled, self.in_progress, self.succeeded, self.failed)[number]
        return Notice(WARNING if reached == "Failed" else NORMAL, reason, self.messages[number])


def words_of(dv: Json) -> Words:
    """Return the vocabulary of a DataVolume: that of an import, or that of a clone."""
    name = dv["metadata"]["name"]
    source = clone_source(dv)
    if source is None:
        told = (
            f"Import into {name} scheduled",
            f"Import into {name} in progress",
            f"Successfully imported into PVC {name}",
            f"Failed to import into PVC {name}",
        )
        return Words("ImportScheduled", "ImportInProgress", "ImportSucceeded", "ImportFailed", told)
    path = f"from {'/'.join(source)} into {dv['metadata']['namespace']}/{name}"
    told = (
        f"Cloning {path} scheduled",
        f"Cloning {path} in progress",
        f"Successfully cloned {path}",
        f"Cloning {path} failed",
    )
    return Words("CloneScheduled", "CloneInProgress", "CloneSucceeded", "CloneFailed", told)


def without_claim(dv: Json, moment: str, *, notice: Notice | None = None, reached: str = "Pending") -> Change:
    """Return the status of a DataVolume that has no claim (yet), with the reason why where there is one."""
    reason, message = (notice.reason, notice.message) if notice else ("NotFound", "No PVC found")
    status = {**(dv.get("status") or {}), "phase": reached}
    conditions = _set(status, "Bound", "False", reason, message, moment)
    ready = (reason, message) if notice else ("", "")
    conditions = _set({**status, "conditions": conditions}, "Ready", "False", *ready, moment)
    conditions = _set({**status, "conditions": conditions}, "Running", "False", "", "", moment)
    status["conditions"] = conditions
    if not reached:
        del status["phase"]
    own = (notice,) if notice and status != (dv.get("status") or {}) else ()
    bound = _bound_notice(dv, status) if not notice else ()
    return Change(status, own + bound)


def with_claim(
    dv: Json, claim: Json, progress: float | None, moment: str, *, waiting: bool = False
) -> Sequence[Change]:
    """Return the statuses that a DataVolume goes through to say what its claim says now; empty when it says so already.

    Args:
        progress: percent of the transfer that is under way, None when none is or nobody knows.
        moment: now, as Kubernetes writes times.
        waiting: whether the claim waits for its first consumer.
    """
    target = _target(dv, claim, waiting)
    changes: list[Change] = []
    at = dv
    for step in _path(phase(dv), target, words_of(dv)):
        change = _change(at, claim, step, step == target, progress, moment)
        if change.status != at.get("status"):
            changes.append(change)
            at = {**at, "status": change.status}
    return changes


def _target(dv: Json, claim: Json, waiting: bool) -> str:
    words, annotations = words_of(dv), names.annotations_of(claim)
    if phase(claim) == "Lost":
        return "Failed"
    pod = annotations.get(names.POD_PHASE, "")
    if pod == "Succeeded":
        return "Succeeded"
    if phase(claim) != "Bound":
        return WAITING if waiting else "Pending"
    if pod == "Failed" and annotations.get(names.FATAL) == "true":
        return "Failed"
    return words.in_progress if pod in {"Running", "Failed", "Succeeded"} else words.scheduled


def _path(current: str, target: str, words: Words) -> Sequence[str]:
    """Return the phases from the current one (left out) to the target: none of an import's life is jumped over."""
    life = ["", "Pending", words.scheduled, words.in_progress, "Succeeded"]
    if current == WAITING and target != WAITING:
        current = "Pending"
    if current == target or current not in life or target == WAITING:
        return [target]
    if target == "Failed":
        return [*([words.scheduled] if current in life[:2] else []), target]
    passed = life[life.index(current) + 1 : life.index(target) + 1]
    return passed or [target]


def _change(dv: Json, claim: Json, step: str, last: bool, progress: float | None, moment: str) -> Change:
    annotations = names.annotations_of(claim)
    words = words_of(dv)
    status: Json = {**(dv.get("status") or {}), "phase": step, "claimName": claim["metadata"]["name"]}
    status["progress"] = _progress(status, step, words, progress if last else None)
    restarts = annotations.get(names.POD_RESTARTS, "")
    if restarts.isdigit() and int(restarts) > 0:
        status["restartCount"] = int(restarts)
    passing = claim if last or step != "Pending" else _pending(claim)
    status["conditions"] = _conditions(status, passing, step, _running_words(annotations, step, last, words), moment)
    notices: tuple[Notice, ...] = ()
    if step != phase(dv):
        lost = phase(claim) == "Lost" and step == "Failed"
        told = Notice(WARNING, "ErrClaimLost", f"PVC {claim['metadata']['name']} lost") if lost else words.notice(step)
        notices = (told,) if told else ()
    return Change(status, notices + _bound_notice(dv, status) + _failure_notice(dv, status))


def _pending(claim: Json) -> Json:
    return {**claim, "status": {**(claim.get("status") or {}), "phase": "Pending"}}


def _progress(status: Json, step: str, words: Words, progress: float | None) -> str:
    if step == "Succeeded":
        return DONE
    if progress is not None and step == words.in_progress:
        return f"{min(progress, 100.0):.2f}%"
    return status.get("progress") or UNKNOWN_PROGRESS


@dataclass(frozen=True)
class _Running:
    status: str
    reason: str = ""
    message: str = ""


def _running_words(annotations: dict[str, str], step: str, last: bool, words: Words) -> _Running:
    """Return what the condition Running says; for a phase that is only passed, what it would have said then."""
    if not last:
        return _Running("True", POD_RUNNING_REASON) if step == words.in_progress else _Running("False")
    if annotations.get(names.POD_SCHEDULABLE) == "false":
        return _Running("False", "Unschedulable", "Importer pod cannot be scheduled")
    told = _Running("False", annotations.get(names.RUNNING_REASON, ""), annotations.get(names.RUNNING_MESSAGE, ""))
    return replace(told, status="True") if annotations.get(names.RUNNING) == "true" else told


def _conditions(status: Json, claim: Json, step: str, running: _Running, moment: str) -> list[Json]:
    name, bound = claim["metadata"]["name"], phase(claim)
    told = {
        "Bound": ("True", "Bound", f"PVC {name} Bound"),
        "Pending": ("False", "Pending", f"PVC {name} Pending"),
        "Lost": ("False", "ClaimLost", "Claim Lost"),
    }.get(bound, ("False", "", ""))
    ready = ("True" if step == "Succeeded" else "False", "TransferRunning" if running.status == "True" else "", "")
    for kind, said in (
        ("Bound", told),
        ("Ready", ready),
        ("Running", (running.status, running.reason, running.message)),
    ):
        status = {**status, "conditions": _set(status, kind, *said, moment)}
    answer: list[Json] = status["conditions"]
    return answer


def _set(status: Json, kind: str, value: str, reason: str, message: str, moment: str) -> list[Json]:
    """Return a status's conditions with one set; one that says the same keeps its times."""
    conditions: list[Json] = list(status.get("conditions") or [])
    old = condition({"status": status}, kind)
    said = {k: v for k, v in (("message", message), ("reason", reason)) if v}
    kept = {k: old[k] for k in ("message", "reason") if old.get(k)} if old else {}
    if old is not None and old["status"] == value and kept == said:
        return conditions
    transition = old["lastTransitionTime"] if old is not None and old["status"] == value else moment
    new = {"type": kind, "status": value, **said, "lastTransitionTime": transition, "lastHeartbeatTime": moment}
    return [new if c["type"] == kind else c for c in conditions] if old is not None else [*conditions, new]


def _bound_notice(dv: Json, status: Json) -> tuple[Notice, ...]:
    new, old = condition({"status": status}, "Bound") or {}, condition(dv, "Bound") or {}
    if not new.get("reason") or all(new.get(k) == old.get(k) for k in ("status", "reason", "message")):
        return ()
    return (Notice(NORMAL, new["reason"], new["message"]),)


def _failure_notice(dv: Json, status: Json) -> tuple[Notice, ...]:
    """Tell a new message of a transfer that does not run, of a claim that is bound and not ready."""
    state = {"status": status}
    running, before = condition(state, "Running") or {}, condition(dv, "Running") or {}
    stopped = running.get("status") == "False" and (condition(state, "Ready") or {}).get("status") == "False"
    bound = (condition(state, "Bound") or {}).get("status") == "True"
    if not (stopped and bound and running.get("message")) or running.get("message") == before.get("message"):
        return ()
    return (Notice(WARNING, running.get("reason", ""), running["message"]),)
