"""Run strategies: start, stop or restart the instance, by what is there; pure decisions, no API.

Always restarts whatever ended, RerunOnFailure only what failed, Once starts a single time, Manual waits for a
request, Halted stops. A start that never reached Running is tried again after 10 s times the square of the
failures in a row, at most 300 s, plus up to half of that by chance (KubeVirt's calculateStartBackoffTime).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.kube.client import Json
from harness.kube.objects import deleting, dig, parse_time, phase, stamp

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
