"""A VirtualMachine's status, computed from what is there."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import datetime

from harness.embedded.vm.instance import GENERATION
from harness.embedded.vm.printable import Seen, printable_status
from harness.embedded.vm.strategy import run_strategy, start_failure
from harness.kube.client import Json
from harness.kube.objects import condition, dig, new_condition, with_condition

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
