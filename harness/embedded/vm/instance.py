"""The VirtualMachineInstance that a VirtualMachine starts, as KubeVirt's VM controller and defaults make it."""

from __future__ import annotations

import copy
import math

from harness.embedded.objects import dig, now, owner_reference, quantity
from harness.kube.client import Json
from harness.kube.resources import VM, VMI

CONTROLLER_FINALIZER = "kubevirt.io/virtualMachineControllerFinalize"
FOREGROUND_FINALIZER = "kubevirt.io/foregroundDeleteVirtualMachine"
GENERATION = "kubevirt.io/vm-generation"
LATEST_API = "kubevirt.io/latest-observed-api-version"
STORAGE_API = "kubevirt.io/storage-observed-api-version"
LAUNCHER_USER = 107  # "qemu" in KubeVirt's launcher image
HOTPLUG_RATIO = 4  # KubeVirt lets memory grow to four times its start where the rollout strategy is LiveUpdate


def revision_name(vm: Json) -> str:
    """Return the name of the ControllerRevision that holds what this generation was started from."""
    return f"revision-start-vm-{vm['metadata']['uid']}-{vm['metadata']['generation']}"


def revision(vm: Json) -> Json:
    """Return that ControllerRevision."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision_name(vm),
            "namespace": vm["metadata"]["namespace"],
            "ownerReferences": [owner_reference(vm, VM)],
        },
        "data": {"spec": vm["spec"]},
        "revision": vm["metadata"]["generation"],
    }


def instance_of(vm: Json) -> Json:
    """Return the instance to create for a VM."""
    meta = vm["metadata"]
    template = vm["spec"]["template"]
    spec = copy.deepcopy(template["spec"])
    _fill_in(spec)
    return {
        "apiVersion": VMI.api_version,
        "kind": VMI.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": dict(dig(template, "metadata", "labels") or {}),
            "annotations": {
                **(dig(template, "metadata", "annotations") or {}),
                GENERATION: str(meta["generation"]),
            },
            "finalizers": [CONTROLLER_FINALIZER, FOREGROUND_FINALIZER],
            "ownerReferences": [owner_reference(vm, VM)],
        },
        "spec": spec,
        "status": first_status(spec, revision_name(vm)),
    }


def first_status(spec: Json, revision_of_vm: str) -> Json:
    """Return the status that an instance is born with."""
    guest = dig(spec, "domain", "memory", "guest")
    cpu = dig(spec, "domain", "cpu") or {}
    status: Json = {
        "phase": "Pending",
        "phaseTransitionTimestamps": [{"phase": "Pending", "phaseTransitionTimestamp": now()}],
        "guestOSInfo": {},
        "runtimeUser": LAUNCHER_USER,
        "currentCPUTopology": {k: cpu[k] for k in ("cores", "sockets", "threads") if cpu.get(k)},
    }
    if revision_of_vm:
        status["virtualMachineRevisionName"] = revision_of_vm
    if guest:
        status["memory"] = {"guestAtBoot": guest, "guestCurrent": guest, "guestRequested": guest}
    return status


def _fill_in(spec: Json) -> None:
    """Add the defaults that KubeVirt's instance webhook and LiveUpdate rollout add."""
    domain = spec.setdefault("domain", {})
    domain.setdefault("cpu", {}).setdefault("model", "host-model")
    domain.setdefault("features", {}).setdefault("acpi", {}).setdefault("enabled", True)
    domain.setdefault("machine", {}).setdefault("type", "q35")
    domain.setdefault("resources", {})
    spec.setdefault("evictionStrategy", "None")
    spec.setdefault("architecture", "amd64")
    memory = domain.get("memory") or {}
    if memory.get("guest") and not memory.get("maxGuest"):
        memory["maxGuest"] = _times(str(memory["guest"]), HOTPLUG_RATIO)
    _default_disks(spec)


def _default_disks(spec: Json) -> None:
    devices = spec["domain"].setdefault("devices", {})
    disks = devices.setdefault("disks", [])
    named = {d["name"] for d in disks}
    for volume in spec.get("volumes") or []:
        if volume["name"] not in named:
            disks.append({"name": volume["name"], "disk": {"bus": "virtio"}})


def _times(amount: str, factor: int) -> str:
    """Multiply a quantity; keeps its binary unit."""
    value = quantity(amount) * factor
    for unit, size in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if value % size == 0:
            return f"{value / size:.0f}{unit}"
    return str(math.ceil(value))
