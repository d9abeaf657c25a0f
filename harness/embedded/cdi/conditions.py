"""A DataVolume's phases and conditions, in an import's words or in a clone's, and the events that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.embedded.cdi import names
from harness.embedded.cdi.claims import clone_source
from harness.kube.client import Json
from harness.kube.events import NORMAL, WARNING
from harness.kube.objects import condition, phase

POD_RUNNING_REASON = "Pod is running"
SCRATCH_MESSAGE = "scratch space required and none found"


@dataclass(frozen=True)
class Notice:
    """An event to tell: its type, reason and message."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Words:
    """How an import or a clone calls its phases and events.

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
        bound = "" if names.annotations_of(dv).get(names.IMMEDIATE) == "true" else "PVCBound"
        return Words("ImportScheduled", "ImportInProgress", "ImportSucceeded", "ImportFailed", told, bound)
    path = f"from {'/'.join(source)} into {dv['metadata']['namespace']}/{name}"
    told = (
        f"Cloning {path} scheduled",
        f"Cloning {path} in progress",
        f"Successfully cloned {path}",
        f"Cloning {path} failed",
    )
    return Words("CloneScheduled", "CloneInProgress", "CloneSucceeded", "CloneFailed", told)


def running_of(annotations: dict[str, str], step: str, last: bool, words: Words) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Running; for a phase that is only passed, those of then."""
    if not last:
        return ("True", POD_RUNNING_REASON, "") if step == words.in_progress else ("False", "", "")
    if annotations.get(names.POD_SCHEDULABLE) == "false":
        return "False", "Unschedulable", "Importer pod cannot be scheduled"
    status = "True" if annotations.get(names.RUNNING) == "true" else "False"
    return status, annotations.get(names.RUNNING_REASON, ""), annotations.get(names.RUNNING_MESSAGE, "")


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


def set_conditions(status: Json, said: Mapping[str, tuple[str, str, str]], moment: str) -> list[Json]:
    """Return a status's conditions with some set: (status, reason, message) by type."""
    for kind, (value, reason, message) in said.items():
        status = {**status, "conditions": _set_condition(status, kind, value, reason, message, moment)}
    conditions: list[Json] = status["conditions"]
    return conditions


def _set_condition(status: Json, kind: str, value: str, reason: str, message: str, moment: str) -> list[Json]:
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
