"""A DataVolume's status as a function of the DataVolume, its claim and the transfer's progress.

Nothing here talks to anybody. Rules: phases follow the claim and the pod whose phase stands in the claim's
annotations; a phase that was passed too quickly to be seen is still gone through; `Failed` is reached by a fatal error
or a lost claim alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.embedded.cdi import names
from harness.embedded.cdi.conditions import (
    Notice,
    Words,
    bound_notice,
    conditions_of,
    failure_notice,
    running_of,
    set_conditions,
    words_of,
)
from harness.kube.client import Json
from harness.kube.events import WARNING
from harness.kube.objects import phase

DONE = "100.0%"
UNKNOWN_PROGRESS = "N/A"
FINAL = frozenset({"Succeeded", "Failed"})
WAITING = "WaitForFirstConsumer"


@dataclass(frozen=True)
class Change:
    """One status to write, and the events that go with it."""

    status: Json
    notices: tuple[Notice, ...]


def without_claim(dv: Json, moment: str, *, notice: Notice, reached: str = "Pending") -> Change:
    """Return the status of a DataVolume that has no claim (yet), with the reason why."""
    status = {**(dv.get("status") or {}), "phase": reached}
    bound = ("False", notice.reason, notice.message)
    said = {"Bound": bound, "Ready": bound, "Running": ("False", "", "")}
    status["conditions"] = set_conditions(status, said, moment)
    if not reached:
        del status["phase"]
    return Change(status, (notice,) if status != (dv.get("status") or {}) else ())


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
    if words.bound and names.IMPORT_POD not in annotations:
        return words.bound
    return words.in_progress if pod in {"Running", "Failed", "Succeeded"} else words.scheduled


def _path(current: str, target: str, words: Words) -> Sequence[str]:
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
    annotations = names.annotations_of(claim)
    words = words_of(dv)
    status: Json = {**(dv.get("status") or {}), "phase": step, "claimName": claim["metadata"]["name"]}
    status["progress"] = _progress(status, step, words, progress if last else None)
    restarts = annotations.get(names.POD_RESTARTS, "")
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


def _progress(status: Json, step: str, words: Words, progress: float | None) -> str:
    if step == "Succeeded":
        return DONE
    if progress is not None and step == words.in_progress:
        return f"{min(progress, 100.0):.2f}%"
    return status.get("progress") or UNKNOWN_PROGRESS
