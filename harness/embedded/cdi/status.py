"""DataVolume status: phase, conditions, progress and events as a function of the DataVolume, its claim and transfer.

Nothing here calls the API. Rules: phases follow the claim and the pod whose phase stands in the claim's
annotations; a phase that was passed too quickly to be seen is still gone through; `Failed` is reached by a fatal
error or a lost claim alone. An import and a clone name their phases differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.embedded.cdi import claims
from harness.embedded.cdi.claims import clone_source
from harness.kube.client import Json
from harness.kube.events import NORMAL, WARNING
from harness.kube.objects import condition, phase

POD_RUNNING_REASON = "Pod is running"
SCRATCH_MESSAGE = "scratch space required and none found"
DONE = "100.0%"
UNKNOWN_PROGRESS = "N/A"
FINAL = frozenset({"Succeeded", "Failed"})
WAITING = "WaitForFirstConsumer"


@dataclass(frozen=True)
class Notice:
    """An event to tell: its type, reason and message."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Vocabulary:
    """Names of phases, and reasons and messages of events, of an import or of a clone.

    bound: the phase between the claim's binding and the choice of a pod, "" where no pod waits for the binding.
    """

    scheduled: str
    in_progress: str
    succeeded: str
    failed: str
    messages: tuple[str, str, str, str]
    bound: str = ""

    def notice(self, reached: str) -> Notice | None:
        """Return the event that goes with reaching a phase."""
        phases = (self.scheduled, self.in_progress, "Succeeded", "Failed")
        reasons = (self.scheduled, self.in_progress, self.succeeded, self.failed)
        told = {at: (reason, message) for at, reason, message in zip(phases, reasons, self.messages, strict=True)}
        return Notice(WARNING if reached == "Failed" else NORMAL, *told[reached]) if reached in told else None


def vocabulary_of(dv: Json) -> Vocabulary:
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
        bound = "" if claims.annotations_of(dv).get(claims.IMMEDIATE) == "true" else "PVCBound"
        return Vocabulary("ImportScheduled", "ImportInProgress", "ImportSucceeded", "ImportFailed", told, bound)
    path = f"from {'/'.join(source)} into {dv['metadata']['namespace']}/{name}"
    told = (
        f"Cloning {path} scheduled",
        f"Cloning {path} in progress",
        f"Successfully cloned {path}",
        f"Cloning {path} failed",
    )
    return Vocabulary("CloneScheduled", "CloneInProgress", "CloneSucceeded", "CloneFailed", told)


def running_of(annotations: dict[str, str], step: str, last: bool, words: Vocabulary) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Running; for a phase that is only passed, those of then."""
    if not last:
        return ("True", POD_RUNNING_REASON, "") if step == words.in_progress else ("False", "", "")
    if annotations.get(claims.POD_SCHEDULABLE) == "false":
        return "False", "Unschedulable", "Importer pod cannot be scheduled"
    status = "True" if annotations.get(claims.RUNNING) == "true" else "False"
    return status, annotations.get(claims.RUNNING_REASON, ""), annotations.get(claims.RUNNING_MESSAGE, "")


def conditions_of(status: Json, claim: Json, step: str, running: tuple[str, str, str], moment: str) -> list[Json]:
    """Return a DataVolume's conditions in the phase `step`, given its claim and its condition Running."""
    name, bound = claim["metadata"]["name"], phase(claim)
    told = {
        "Bound": ("True", "Bound", f"PVC {name} Bound"),
        "Pending": ("False", "Pending", f"PVC {name} Pending"),
        "Lost": ("False", "ClaimLost", "Claim Lost"),
    }.get(bound, ("False", "", ""))
    ready = ("True" if step == "Succeeded" else "False", "TransferRunning" if running[0] == "True" else "", "")
    return set_conditions(status, {"Bound": told, "Ready": ready, "Running": running}, moment)


def set_conditions(status: Json, words: Mapping[str, tuple[str, str, str]], moment: str) -> list[Json]:
    """Return a status's conditions with some set: (status, reason, message) by type."""
    for kind, (value, reason, message) in words.items():
        status = {**status, "conditions": _set_condition(status, kind, value, reason, message, moment)}
    conditions: list[Json] = status["conditions"]
    return conditions


def _set_condition(status: Json, kind: str, value: str, reason: str, message: str, moment: str) -> list[Json]:
    """Return a status's conditions with one set; one that says the same keeps its times."""
    conditions: list[Json] = list(status.get("conditions") or [])
    old = condition({"status": status}, kind)
    words = {k: v for k, v in (("message", message), ("reason", reason)) if v}
    kept = {k: old[k] for k in ("message", "reason") if old.get(k)} if old else {}
    if old is not None and old["status"] == value and kept == words:
        return conditions
    transition = old["lastTransitionTime"] if old is not None and old["status"] == value else moment
    new = {"type": kind, "status": value, **words, "lastTransitionTime": transition, "lastHeartbeatTime": moment}
    return [new if c["type"] == kind else c for c in conditions] if old is not None else [*conditions, new]


def bound_notice(dv: Json, status: Json) -> tuple[Notice, ...]:
    """Return the event of a condition Bound that reports something new."""
    new, old = condition({"status": status}, "Bound") or {}, condition(dv, "Bound") or {}
    if not new.get("reason") or all(new.get(k) == old.get(k) for k in ("status", "reason", "message")):
        return ()
    return (Notice(NORMAL, new["reason"], new["message"]),)


def failure_notice(dv: Json, status: Json) -> tuple[Notice, ...]:
    """Tell a new message of a transfer that does not run, of a claim that is bound and not ready.

    So a good end is told as a warning, too: an importer has ended before its pod is over. The want of scratch space is
    not (CDI v1.66.0, pkg/controller/datavolume: `emitFailureConditionEvent`).
    """
    state = {"status": status}
    running, before = condition(state, "Running") or {}, condition(dv, "Running") or {}
    stopped = running.get("status") == "False" and (condition(state, "Ready") or {}).get("status") == "False"
    bound = (condition(state, "Bound") or {}).get("status") == "True"
    message = running.get("message") or SCRATCH_MESSAGE
    if not (stopped and bound) or message in (SCRATCH_MESSAGE, before.get("message")):
        return ()
    return (Notice(WARNING, running.get("reason", ""), message),)


@dataclass(frozen=True)
class Change:
    """One status to write, and the events that go with it."""

    status: Json
    notices: tuple[Notice, ...]


def without_claim(dv: Json, moment: str, *, notice: Notice | None, reached: str = "Pending") -> Change:
    """Return the status of a DataVolume that has no claim (yet), with the reason why; None: that is told elsewhere."""
    status = {**(dv.get("status") or {}), "phase": reached}
    bound = ("False", notice.reason, notice.message) if notice is not None else ("False", "", "")
    words = {"Bound": bound, "Ready": bound, "Running": ("False", "", "")}
    status["conditions"] = set_conditions(status, words, moment)
    if not reached:
        del status["phase"]
    return Change(status, (notice,) if notice is not None and status != (dv.get("status") or {}) else ())


def with_claim(
    dv: Json, claim: Json, progress: float | None, moment: str, *, waiting: bool = False
) -> Sequence[Change]:
    """Return the statuses that a DataVolume goes through to say what its claim says now; empty when it says so already.

    Args:
        progress: percent of the transfer that is under way, None when none is or nobody knows.
        moment: now, as Kubernetes writes times.
        waiting: whether the claim's class waits for a first consumer.
    """
    target = _target(dv, claim, waiting)
    changes: list[Change] = []
    at = dv
    for step in _path(phase(dv), target, vocabulary_of(dv)):
        change = _change(at, claim, step, step == target, progress, moment)
        if change.status != at.get("status"):
            changes.append(change)
            at = {**at, "status": change.status}
    return changes


def _target(dv: Json, claim: Json, waiting: bool) -> str:
    words, annotations = vocabulary_of(dv), claims.annotations_of(claim)
    if phase(claim) == "Lost":
        return "Failed"
    pod = annotations.get(claims.POD_PHASE, "")
    if pod == "Succeeded":
        return "Succeeded"
    if phase(claim) != "Bound":
        return WAITING if waiting else "Pending"
    if pod == "Failed" and annotations.get(claims.FATAL) == "true":
        return "Failed"
    if words.bound and claims.IMPORT_POD not in annotations:
        return words.bound
    return words.in_progress if pod in {"Running", "Failed", "Succeeded"} else words.scheduled


def _path(current: str, target: str, words: Vocabulary) -> Sequence[str]:
    """Return the phases from the current one (left out) to the target: none of an import's life is jumped over."""
    bound = [words.bound] if words.bound else []
    life = ["", "Pending", *bound, words.scheduled, words.in_progress, "Succeeded"]
    if current == WAITING and target != WAITING:
        current = "Pending"
    if current == target or current not in life or target == WAITING:
        return [target]
    if target == "Failed":
        return [*life[max(life.index(current), 1) + 1 : life.index(words.scheduled) + 1], target]
    passed = life[life.index(current) + 1 : life.index(target) + 1]
    return passed or [target]


def _change(dv: Json, claim: Json, step: str, last: bool, progress: float | None, moment: str) -> Change:
    annotations = claims.annotations_of(claim)
    words = vocabulary_of(dv)
    status: Json = {**(dv.get("status") or {}), "phase": step, "claimName": claim["metadata"]["name"]}
    status["progress"] = _progress(status, step, words, progress if last else None)
    restarts = annotations.get(claims.POD_RESTARTS, "")
    if restarts.isdigit() and int(restarts) > 0:
        status["restartCount"] = int(restarts)
    passing = (
        claim if last or step != "Pending" else {**claim, "status": {**(claim.get("status") or {}), "phase": "Pending"}}
    )
    status["conditions"] = conditions_of(status, passing, step, running_of(annotations, step, last, words), moment)
    notices: tuple[Notice, ...] = ()
    if step != phase(dv):
        lost = phase(claim) == "Lost" and step == "Failed"
        told = Notice(WARNING, "ErrClaimLost", f"PVC {claim['metadata']['name']} lost") if lost else words.notice(step)
        if step == words.scheduled and phase(dv) == words.bound:
            told = None  # CDI tells it of a pod that it has seen: here it has only chosen the pod's name
        notices = (told,) if told else ()
    return Change(status, notices + bound_notice(dv, status) + failure_notice(dv, status))


def _progress(status: Json, step: str, words: Vocabulary, progress: float | None) -> str:
    if step == "Succeeded":
        return DONE
    if progress is not None and step == words.in_progress:
        return f"{min(progress, 100.0):.2f}%"
    return status.get("progress") or UNKNOWN_PROGRESS
