"""The webhooks of VirtualMachineInstance: defaults on create, its status and spec guarded on update.

The kind has no status subresource: whoever may update the object could write its status. So the mutator puts the old
status back unless the writer is KubeVirt itself (`trusted`: here the user that the embedded controllers run as).
"""

from __future__ import annotations

import copy

from harness.embedded.admission.names import quantity
from harness.embedded.admission.response import (
    ALLOWED,
    NOT_SUPPORTED,
    AdmissionResponse,
    Json,
    StatusCause,
    change,
    kubevirt_refusal,
)
from harness.embedded.admission.vm import MACHINE_TYPES, architecture, instance_causes, undecodable
from harness.embedded.admission.vm_resources import RESERVED_LABELS, memory_causes, metadata_causes
from harness.embedded.admission.vm_volumes import unmapped_volume_causes
from harness.embedded.vm.instance import CONTROLLER_FINALIZER, FOREGROUND_FINALIZER, LAUNCHER_USER
from harness.kube.objects import now

FINALIZERS = (CONTROLLER_FINALIZER, FOREGROUND_FINALIZER)
HOTPLUG_RATIO = 4  # a guest may grow to this multiple of its memory (KubeVirt's default maxHotplugRatio)


def default_vmi(request: Json, trusted: frozenset[str]) -> AdmissionResponse:
    """Answer for the mutator."""
    if request["operation"] == "UPDATE":
        return _guard_status(request, trusted)
    vmi = request["object"]
    refused = undecodable("virtualmachineinstances", vmi, "VirtualMachineInstance", "spec")
    if refused is not None:
        return refused
    metadata = copy.deepcopy(vmi["metadata"])
    finalizers = metadata.setdefault("finalizers", [])
    finalizers += [name for name in FINALIZERS if name not in finalizers]
    spec = copy.deepcopy(vmi["spec"])
    _default_spec(spec)
    return change(request, {"metadata": metadata, "spec": spec, "status": _first_status(vmi, spec)})


def _default_spec(spec: Json) -> None:
    spec.setdefault("architecture", architecture())
    spec.setdefault("evictionStrategy", "None")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    domain = spec["domain"]
    domain.setdefault("machine", {}).setdefault("type", MACHINE_TYPES[spec["architecture"]])
    domain.setdefault("resources", {})
    domain.setdefault("cpu", {}).setdefault("model", "host-model")
    domain.setdefault("features", {}).setdefault("acpi", {}).setdefault("enabled", True)
    requested = (domain["resources"].get("requests") or {}).get("memory")
    if requested:
        domain.setdefault("memory", {}).setdefault("guest", requested)
    memory = domain.get("memory") or {}
    if "guest" in memory:
        memory.setdefault("maxGuest", _times(memory["guest"], HOTPLUG_RATIO))


def _times(size: object, factor: int) -> str:
    """Multiply a quantity, keeping its unit where it is a whole number of one."""
    text = str(size)
    digits = text.rstrip("KMGTPEikm")
    if digits.isdecimal():
        return f"{int(digits) * factor}{text[len(digits) :]}"
    return str(int(quantity(text) * factor))


def _first_status(vmi: Json, spec: Json) -> Json:
    status: Json = copy.deepcopy(vmi.get("status") or {})
    cpu = spec["domain"]["cpu"]
    guest = (spec["domain"].get("memory") or {}).get("guest")
    phase = status["phase"] = status.get("phase", "Pending") or "Pending"
    status.setdefault("phaseTransitionTimestamps", [{"phase": phase, "phaseTransitionTimestamp": now()}])
    status.setdefault("currentCPUTopology", {k: cpu[k] for k in ("cores", "sockets", "threads") if k in cpu})
    status.setdefault("guestOSInfo", {})
    if guest:
        status.setdefault("memory", {"guestAtBoot": guest, "guestCurrent": guest, "guestRequested": guest})
    status.setdefault("runtimeUser", LAUNCHER_USER)
    return status


def _guard_status(request: Json, trusted: frozenset[str]) -> AdmissionResponse:
    if request["userInfo"]["username"] in trusted:
        return ALLOWED
    old = (request.get("oldObject") or {}).get("status", {})
    return change(request, {"status": old}) if request["object"].get("status", {}) != old else ALLOWED


def validate_vmi_create(request: Json, trusted: frozenset[str]) -> AdmissionResponse:
    """Answer for the create validator."""
    vmi = request["object"]
    spec = vmi["spec"]
    causes = [*instance_causes("spec", spec), *unmapped_volume_causes("spec", spec), *memory_causes("spec", spec)]
    if request["userInfo"]["username"] not in trusted:
        causes += metadata_causes("metadata", vmi["metadata"])
    return kubevirt_refusal(causes) if causes else ALLOWED


def validate_vmi_update(request: Json, trusted: frozenset[str]) -> AdmissionResponse:
    """Answer for the update validator: users change neither the spec nor KubeVirt's labels."""
    if request["userInfo"]["username"] in trusted:
        return ALLOWED
    old, new = request["oldObject"], request["object"]
    if old.get("spec") != new.get("spec"):
        return kubevirt_refusal([StatusCause("update of VMI object is restricted", reason=NOT_SUPPORTED)])
    before, after = (
        {k: v for k, v in (obj["metadata"].get("labels") or {}).items() if k in RESERVED_LABELS} for obj in (old, new)
    )
    if before != after:
        message = "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
        return kubevirt_refusal([StatusCause(message, reason=NOT_SUPPORTED)])
    return ALLOWED
