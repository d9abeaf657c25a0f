"""A VirtualMachine's `printableStatus`: KubeVirt's rules in KubeVirt's order, the first that matches wins.

The order is that of KubeVirt 1.9's VM controller (pkg/virt-controller/watch/vm/vm.go); migrations and decentralised
receivers do not exist here, so their rules are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.embedded.vm.strategy import RESTARTING, is_final, run_strategy, wants_to_run
from harness.kube.client import Json
from harness.kube.objects import deleting, dig, is_condition, phase

PVC_NOT_FOUND = "FailedPvcNotFound"


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
