"""Admission of VirtualMachines and their instances: defaults on create, validation, status and spec guarded on update.

The kind VirtualMachineInstance has no status subresource: whoever may update the object could write its status.
So its mutator puts the old status back unless the writer is KubeVirt itself (`trusted`: here the user that the
embedded controllers run as).
"""

from __future__ import annotations

import copy
import platform
import uuid
from collections.abc import Iterator, Sequence

from harness.embedded.admission.instance_spec import (
    RESERVED_LABELS,
    boot_order_causes,
    disk_causes,
    eviction_causes,
    hostname_causes,
    memory_causes,
    metadata_causes,
    network_causes,
    probe_causes,
    quantity,
    resource_causes,
    unmapped_volume_causes,
    volume_causes,
)
from harness.embedded.crds import schema
from harness.embedded.vm.instance import CONTROLLER_FINALIZER, FOREGROUND_FINALIZER, LAUNCHER_USER
from harness.kube.admission import (
    ALLOWED,
    BAD_REQUEST,
    NOT_SUPPORTED,
    REQUIRED,
    UNPROCESSABLE,
    AdmissionResponse,
    StatusCause,
    change,
)
from harness.kube.client import Json
from harness.kube.objects import dig, now

RUN_STRATEGIES = frozenset({"Always", "Halted", "Manual", "RerunOnFailure", "Once"})  # WaitAsReceiver wants a gate
PCI_TOPOLOGY = "kubevirt.io/pci-topology-version"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}
MACHINE_TYPES = {"amd64": "q35", "arm64": "virt", "s390x": "s390-ccw-virtio"}
FINALIZERS = (CONTROLLER_FINALIZER, FOREGROUND_FINALIZER)
HOTPLUG_RATIO = 4  # a guest may grow to this multiple of its memory (KubeVirt's default maxHotplugRatio)


def architecture() -> str:
    """Return the cluster's default architecture: this machine's."""
    return ARCHITECTURES.get(platform.machine(), "amd64")


def kubevirt_refusal(causes: Sequence[StatusCause]) -> AdmissionResponse:
    """Refuse as virt-api does: with all causes in the message, and the reason Invalid."""
    message = ", ".join(cause.message for cause in causes)
    return AdmissionResponse(False, code=UNPROCESSABLE, reason="Invalid", message=message, causes=tuple(causes))


def default_vm(request: Json) -> AdmissionResponse:
    """Answer for the mutator: fill in what a machine keeps for its whole life."""
    vm = request["object"]
    refused = undecodable("virtualmachines", vm, "VirtualMachineInstanceTemplateSpec", "spec.template.spec")
    if refused is not None:
        return refused
    if vm["metadata"].get("deletionTimestamp"):
        return ALLOWED
    spec = copy.deepcopy(vm["spec"])
    template = spec["template"]
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(PCI_TOPOLOGY, "v3")
    instance = template["spec"]
    instance.setdefault("architecture", architecture())
    domain = instance["domain"]
    firmware = domain.setdefault("firmware", {})
    firmware.setdefault("uuid", str(uuid.uuid4()))
    firmware.setdefault("serial", str(uuid.uuid4()))
    domain.setdefault("machine", {}).setdefault("type", MACHINE_TYPES[instance["architecture"]])
    domain.setdefault("resources", {})
    return change(request, {"spec": spec})


def validate_vm(request: Json) -> AdmissionResponse:
    """Answer for the validator."""
    vm = request["object"]
    if vm["metadata"].get("deletionTimestamp"):
        return ALLOWED
    spec = vm["spec"]
    template = spec["template"]
    instance, field = template["spec"], "spec.template.spec"
    causes = [
        *metadata_causes("spec.template.metadata", template.get("metadata") or {}),
        *instance_causes(field, instance),
        *template_causes("spec", spec),
        *run_strategy_causes("spec", spec),
    ] or [*namespace_causes("spec", spec, request["namespace"])]
    if causes:
        return kubevirt_refusal(causes)
    deprecated = spec.get("running") is not None
    warning = "spec.running is deprecated, please use spec.runStrategy instead."
    return AdmissionResponse(allowed=True, warnings=(warning,)) if deprecated else ALLOWED


def run_strategy_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge `running` and `runStrategy`: exactly one, and a known strategy."""
    strategy = spec.get("runStrategy")
    if strategy is not None and spec.get("running") is not None:
        note = "Note that Running is deprecated, please use RunStrategy instead"
        yield StatusCause(f"Running and RunStrategy are mutually exclusive. {note}", f"{field}.running")
    if strategy is None and spec.get("running") is None:
        yield StatusCause("RunStrategy must be specified", f"{field}.running")
    if strategy is not None and strategy not in RUN_STRATEGIES:
        yield StatusCause(f"Invalid RunStrategy ({strategy})", f"{field}.runStrategy")


def template_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge each dataVolumeTemplate: named, used by a volume, one storage, one source."""
    used = {
        (volume.get("dataVolume") or {}).get("name") or (volume.get("persistentVolumeClaim") or {}).get("claimName")
        for volume in spec["template"]["spec"].get("volumes") or []
    }
    for index, template in enumerate(spec.get("dataVolumeTemplates") or []):
        where = f"{field}.dataVolumeTemplate[{index}]"
        name = (template.get("metadata") or {}).get("name")
        if not name:
            message = f"'name' field must not be empty for DataVolumeTemplate entry {where}.name."
            yield StatusCause(message, f"{where}.name", REQUIRED)
            continue
        yield from _storage_and_source(where, template.get("spec") or {})
        if name not in used:
            message = f"DataVolumeTemplate entry {where} must be referenced in the VMI template's 'volumes' list"
            yield StatusCause(message, where, REQUIRED)


def _storage_and_source(where: str, spec: Json) -> Iterator[StatusCause]:
    """Return the first thing wrong with a template's storage or source."""
    pvc, storage = spec.get("pvc"), spec.get("storage")
    source, reference = spec.get("source"), spec.get("sourceRef")
    claim_source = (pvc or {}).get("dataSource") or (pvc or {}).get("dataSourceRef")
    populated = claim_source or (storage or {}).get("dataSource") or (storage or {}).get("dataSourceRef")
    if pvc is None and storage is None:
        yield StatusCause("Missing Data volume PVC or Storage", f"{where}.PVC")
    elif pvc is not None and storage is not None:
        message = "Duplicate storage definition, both target storage and target pvc defined"
        yield StatusCause(message, f"{where}.PVC.Storage")
    elif (source is None and reference is None and not populated) or (source is not None and reference is not None):
        message = "Data volume should have either Source, SourceRef, or be externally populated"
        yield StatusCause(message, f"{where}.source.sourceRef")
    elif source is not None and len(source) > 1:
        yield StatusCause("Multiple dataVolume sources", f"{where}.source")
    elif source is not None and not source:
        yield StatusCause("Missing dataVolume source", f"{where}.source")


def namespace_causes(field: str, spec: Json, namespace: str) -> Iterator[StatusCause]:
    """Judge that no dataVolumeTemplate names another namespace than the machine's."""
    for index, template in enumerate(spec.get("dataVolumeTemplates") or []):
        other = (template.get("metadata") or {}).get("namespace")
        if other and other != namespace:
            message = f"Embedded DataVolume namespace {other} differs from VM namespace {namespace}"
            yield StatusCause(message, f"{field}.dataVolumeTemplates[{index}]")


def instance_causes(field: str, spec: Json) -> list[StatusCause]:
    """Judge an instance's spec wherever it stands, in the real validator's order."""
    rules = (
        hostname_causes,
        resource_causes,
        network_causes,
        boot_order_causes,
        probe_causes,
        disk_causes,
        volume_causes,
        eviction_causes,
    )
    return [cause for rule in rules for cause in rule(field, spec)]


def undecodable(plural: str, obj: Json, struct: str, path: str) -> AdmissionResponse | None:
    """Refuse an object that lacks a required part of its spec, or has a negative CPU count (an unsigned number in Go).

    List items are left to the API server's own check.

    Args:
        struct: the Go structure that the real decoder names.
        path: where an instance's spec lies in the object.
    """
    missing = _missing(schema(plural, "kubevirt.io"), obj, "")
    if causes := [StatusCause(f"{name} in body is required", reason="") for name in missing]:
        return kubevirt_refusal(causes)
    for name, value in (dig(obj, *path.split("."), "domain", "cpu") or {}).items():
        if name in {"cores", "sockets", "threads", "maxSockets"} and isinstance(value, int) and value < 0:
            field = f"{struct}.{path}.domain.cpu.{name}"
            message = f"json: cannot unmarshal number {value} into Go struct field {field} of type uint32"
            return AdmissionResponse(False, code=BAD_REQUEST, message=message)
    return None


def _missing(rules: Json, value: object, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name in rules.get("required", []):
        if name not in value:
            yield path + name
    for name, part in rules.get("properties", {}).items():
        if name in value and name != "status":
            yield from _missing(part, value[name], f"{path}{name}.")


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
