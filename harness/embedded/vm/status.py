"""VirtualMachine status: `printableStatus`, conditions and start failures, computed from what is there.

`printableStatus` follows KubeVirt's rules in KubeVirt's order, the first that matches wins (KubeVirt 1.9,
pkg/virt-controller/watch/vm/vm.go); migrations and decentralised receivers do not exist here, so their rules are
left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from harness.embedded.vm.instance import GENERATION
from harness.embedded.vm.run_strategy import RESTARTING, is_final, run_strategy, start_failure, wants_to_run
from harness.kube.client import Json
from harness.kube.objects import condition, deleting, dig, is_condition, new_condition, phase, with_condition

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
    found = with_condition(old, ready_condition(vmi, moment))
    copied = {c["type"]: c for c in dig(vmi, "status", "conditions") or [] if c["type"] not in OF_THE_VM}
    found = [c for c in found if c["type"] in {*OF_THE_VM, *copied}]
    for new in copied.values():
        found = with_condition(found, new)
    return found


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


def _stopping(seen: Seen) -> bool:
    return seen.vmi is not None and not is_final(seen.vmi) and (deleting(seen.vmi) or seen.stop_expected)


def _data_volume_error(seen: Seen) -> bool:
    return any(
        phase(dv) == "Failed" or any(is_condition(dv, "Running", "False", r) for r in ("Error", "ImagePullFailed"))
        for dv in seen.data_volumes
    )


def _provisioning(seen: Seen) -> bool:
    return any(
        phase(dv) not in {"Succeeded", "PendingPopulation"}
        and (is_condition(dv, "Bound", "True") or phase(dv) != "WaitForFirstConsumer")
        for dv in seen.data_volumes
    )


def _waiting_for_binding(seen: Seen) -> bool:
    return wants_to_run(seen.vm, seen.vmi) and any(phase(claim) != "Bound" for claim in seen.claims)


def _starting(seen: Seen) -> bool:
    if seen.vmi is None:
        return seen.start_expected
    return phase(seen.vmi) in {"", "Pending", "Scheduling", "Scheduled"}


def _stopped(seen: Seen) -> bool:
    return seen.vmi is None or is_final(seen.vmi)


def _crash_loop(seen: Seen) -> bool:
    failures = dig(seen.vm, "status", "startFailure", "consecutiveFailCount") or 0
    return _stopped(seen) and failures > 0 and run_strategy(seen.vm) in RESTARTING


def _out_of_sync(reason: str) -> Callable[[Seen], bool]:
    return lambda seen: is_condition(seen.vmi, "Synchronized", "False", reason)


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


def printable_status(seen: Seen) -> str:
    """Return what stands in the Status column for what was seen."""
    return next((value for value, holds in RULES if holds(seen)), "Unknown")
