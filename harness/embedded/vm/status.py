"""Status of a VirtualMachine: its run strategy, printable status and conditions.

Always restarts whatever ended, RerunOnFailure only what failed, Once starts a single time, Manual waits for a
request, Halted stops. A start that never reached Running is tried again after 10 s times the square of the
failures in a row, at most 300 s, plus up to half of that by chance (KubeVirt's calculateStartBackoffTime).

`printableStatus` follows KubeVirt's rules in KubeVirt's order, the first that matches wins (KubeVirt 1.9,
pkg/virt-controller/watch/vm/vm.go); migrations and decentralised receivers do not exist here, so their rules are
left out.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from harness.embedded.vm.instance import GENERATION
from harness.kube.client import Json
from harness.kube.objects import (
    condition,
    deleting,
    dig,
    is_condition,
    new_condition,
    parse_time,
    phase,
    stamp,
    with_condition,
)

RESTARTING = frozenset({"Always", "RerunOnFailure", "Once"})
BACKOFF_SECONDS = 10  # KubeVirt's delay after a failed start, times the square of failures
BACKOFF_LIMIT_SECONDS = 300  # KubeVirt's longest
START = "Start"
STOP = "Stop"


@dataclass(frozen=True)
class InstanceAction:
    """What to do with the instance now.

    Attributes: start, stop; again (seconds after which to decide anew); rerun (leave a start request behind, so that
    RerunOnFailure starts once the failed instance is gone); answered (drop the first state change request).
    """

    start: bool = False
    stop: bool = False
    again: float | None = None
    rerun: bool = False
    answered: bool = False


NOTHING = InstanceAction()


def run_strategy(vm: Json) -> str:
    """Return a VM's run strategy; the deprecated `running` stands for Always or Halted."""
    spec = vm.get("spec") or {}
    if spec.get("running") is not None:
        return "Always" if spec["running"] else "Halted"
    return str(spec.get("runStrategy") or "Halted")


def is_final(vmi: Json) -> bool:
    """Tell whether an instance has ended."""
    return phase(vmi) in {"Succeeded", "Failed"}


def wants_to_run(vm: Json, vmi: Json | None) -> bool:
    """Tell whether the VM is set to start (or has started)."""
    strategy = run_strategy(vm)
    if strategy == "Manual":
        return vmi is not None or _requested(vm, START)
    if strategy == "RerunOnFailure":
        return vmi is None or not is_final(vmi)
    return strategy in {"Always", "Once"}


def decide(vm: Json, vmi: Json | None, moment: datetime) -> InstanceAction:
    """Return what the run strategy asks for at a moment."""
    return _with_instance(vm, vmi) if vmi is not None else _without_instance(vm, moment)


def _with_instance(vm: Json, vmi: Json) -> InstanceAction:
    if deleting(vmi):
        return NOTHING
    strategy = run_strategy(vm)
    asked = _requested(vm, STOP, vmi["metadata"]["uid"])
    if strategy == "Halted":
        return InstanceAction(stop=True)
    if strategy == "Always":
        return InstanceAction(stop=asked or is_final(vmi), answered=asked)
    if strategy == "RerunOnFailure":
        failed = phase(vmi) == "Failed" and not asked
        return InstanceAction(stop=asked or is_final(vmi), rerun=failed, answered=asked)
    if strategy == "Manual":
        return InstanceAction(stop=asked, answered=asked)
    return NOTHING


def _without_instance(vm: Json, moment: datetime) -> InstanceAction:
    strategy = run_strategy(vm)
    asked = _requested(vm, START)
    if strategy == "Manual" and asked:
        return InstanceAction(start=True, answered=True)
    if strategy not in RESTARTING:
        return NOTHING
    before = dig(vm, "status", "runStrategy")
    ran_before = dig(vm, "status", "observedGeneration") is not None
    if strategy == "RerunOnFailure" and before == strategy and not asked and ran_before:
        return NOTHING
    left = _backoff_left(vm, moment) if strategy != "Once" else 0.0
    return InstanceAction(again=left) if left > 0 else InstanceAction(start=True, answered=asked)


def _requested(vm: Json, action: str, uid: str | None = None) -> bool:
    requests = dig(vm, "status", "stateChangeRequests") or []
    return bool(requests) and requests[0].get("action") == action and (uid is None or requests[0].get("uid") == uid)


def _backoff_left(vm: Json, moment: datetime) -> float:
    retry_at = dig(vm, "status", "startFailure", "retryAfterTimestamp")
    return max(0.0, (parse_time(retry_at) - moment).total_seconds()) if retry_at else 0.0


def start_failure(vm: Json, vmi: Json | None, moment: datetime) -> Json | None:
    """Return the VM's `startFailure`: counted once per instance that ended before it ran."""
    old: Json | None = dig(vm, "status", "startFailure")
    if run_strategy(vm) not in RESTARTING:
        return None
    if vmi is None:
        return old
    if any(t["phase"] == "Running" for t in dig(vmi, "status", "phaseTransitionTimestamps") or []):
        return None
    if not is_final(vmi) or (old or {}).get("lastFailedVMIUID") == vmi["metadata"]["uid"]:
        return old
    count = int((old or {}).get("consecutiveFailCount", 0)) + 1
    return {
        "consecutiveFailCount": count,
        "lastFailedVMIUID": vmi["metadata"]["uid"],
        "retryAfterTimestamp": stamp(moment + timedelta(seconds=backoff_seconds(count, random.random()))),  # noqa: S311 - spreads retries, keeps no secret
    }


def backoff_seconds(failures: int, chance: float) -> float:
    """Return the wait before the next start after so many `failures` in a row; `chance` (0 to 1) scales the half."""
    return min(float(BACKOFF_LIMIT_SECONDS), BACKOFF_SECONDS * failures * failures * (1 + 0.5 * chance))


PVC_NOT_FOUND = "FailedPvcNotFound"
OF_THE_VM = frozenset({"Ready", "Failure", "RestartRequired"})  # the only ones that are not the instance's (v1.9.0)


def vm_status(seen: Seen, moment: datetime) -> Json:
    """Return the whole status of a VM."""
    vm, vmi = seen.vm, seen.vmi
    status = copy.deepcopy(vm.get("status") or {})
    _put(status, "created", True if vmi is not None else None)
    _put(status, "startFailure", start_failure(vm, vmi, moment))
    if vmi is not None:
        status["desiredGeneration"] = vm["metadata"]["generation"]
        observed = (vmi["metadata"].get("annotations") or {}).get(GENERATION, "")
        if observed.isdigit():
            status["observedGeneration"] = int(observed)
    if not seen.start_expected:
        status["runStrategy"] = run_strategy(vm)
    status["conditions"] = _conditions(status.get("conditions") or [], vmi, moment)
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])
    _put(status, "ready", True if ready else None)
    status["printableStatus"] = printable_status(replace(seen, vm={**vm, "status": status}))
    return status


def _put(status: Json, key: str, value: object) -> None:
    if value is None:
        status.pop(key, None)
    else:
        status[key] = value


def _conditions(old: list[Json], vmi: Json | None, moment: datetime) -> list[Json]:
    """Return the VM's conditions: Ready always, the instance's others copied, the VM's own kept."""
    conditions = with_condition(old, ready_condition(vmi, moment))
    copied = {c["type"]: c for c in dig(vmi, "status", "conditions") or [] if c["type"] not in OF_THE_VM}
    conditions = [c for c in conditions if c["type"] in {*OF_THE_VM, *copied}]
    for new in copied.values():
        conditions = with_condition(conditions, new)
    return conditions


def ready_condition(vmi: Json | None, moment: datetime) -> Json:
    """Return a VM's Ready condition: its instance's, or why there is none."""
    copied = condition(vmi, "Ready")
    if copied is not None:
        return copy.deepcopy(copied)
    if vmi is None:
        return new_condition("Ready", "False", "VMINotExists", "VMI does not exist", moment)
    return new_condition("Ready", "False", "VMIConditionMissing", "VMI is missing the Ready condition", moment)


@dataclass(frozen=True)
class Seen:
    """What the status is judged from.

    Attributes: data_volumes and claims (those that the VM's volumes name and that exist), start_expected and
    stop_expected (the controller has just created or deleted the instance and not yet seen it).
    """

    vm: Json
    vmi: Json | None
    data_volumes: Sequence[Json] = ()
    claims: Sequence[Json] = ()
    start_expected: bool = False
    stop_expected: bool = False


def _stopping(observed: Seen) -> bool:
    return (
        observed.vmi is not None and not is_final(observed.vmi) and (deleting(observed.vmi) or observed.stop_expected)
    )


def _data_volume_error(observed: Seen) -> bool:
    return any(
        phase(dv) == "Failed" or any(is_condition(dv, "Running", "False", r) for r in ("Error", "ImagePullFailed"))
        for dv in observed.data_volumes
    )


def _provisioning(observed: Seen) -> bool:
    return any(
        phase(dv) not in {"Succeeded", "PendingPopulation"}
        and (is_condition(dv, "Bound", "True") or phase(dv) != "WaitForFirstConsumer")
        for dv in observed.data_volumes
    )


def _waiting_for_binding(observed: Seen) -> bool:
    return wants_to_run(observed.vm, observed.vmi) and any(phase(claim) != "Bound" for claim in observed.claims)


def _starting(observed: Seen) -> bool:
    if observed.vmi is None:
        return observed.start_expected
    return phase(observed.vmi) in {"", "Pending", "Scheduling", "Scheduled"}


def _stopped(observed: Seen) -> bool:
    return observed.vmi is None or is_final(observed.vmi)


def _crash_loop(observed: Seen) -> bool:
    failures = dig(observed.vm, "status", "startFailure", "consecutiveFailCount") or 0
    return _stopped(observed) and failures > 0 and run_strategy(observed.vm) in RESTARTING


def _out_of_sync(reason: str) -> Callable[[Seen], bool]:
    return lambda observed: is_condition(observed.vmi, "Synchronized", "False", reason)


RULES: Sequence[tuple[str, Callable[[Seen], bool]]] = (
    ("Terminating", lambda seen: deleting(seen.vm)),
    ("Stopping", _stopping),
    ("Paused", lambda seen: is_condition(seen.vmi, "Paused", "True")),
    ("Running", lambda seen: phase(seen.vmi) == "Running"),
    ("ErrorPvcNotFound", _out_of_sync(PVC_NOT_FOUND)),
    ("DataVolumeError", _data_volume_error),
    ("ErrorUnschedulable", lambda seen: is_condition(seen.vmi, "PodScheduled", "False", "Unschedulable")),
    ("Provisioning", _provisioning),
    ("WaitingForVolumeBinding", _waiting_for_binding),
    ("ErrImagePull", _out_of_sync("ErrImagePull")),
    ("ImagePullBackOff", _out_of_sync("ImagePullBackOff")),
    ("Starting", _starting),
    ("CrashLoopBackOff", _crash_loop),
    ("Stopped", _stopped),
)


def printable_status(observed: Seen) -> str:
    """Return what stands in the Status column for what was seen."""
    return next((value for value, holds in RULES if holds(observed)), "Unknown")
