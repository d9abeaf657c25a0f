"""The VirtualMachineInstance that a VirtualMachine starts, as KubeVirt's VM controller makes it."""

from __future__ import annotations

import copy

from harness.kube.client import Json
from harness.kube.objects import dig, owner_reference
from harness.kube.resources import VM, VMI

CONTROLLER_FINALIZER = "kubevirt.io/virtualMachineControllerFinalize"
FOREGROUND_FINALIZER = "kubevirt.io/foregroundDeleteVirtualMachine"
GENERATION = "kubevirt.io/vm-generation"
OBSERVED = dict.fromkeys(("kubevirt.io/latest-observed-api-version", "kubevirt.io/storage-observed-api-version"), "v1")
LAUNCHER_USER = 107  # "qemu" in KubeVirt's launcher image


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
    """Return the instance to create for a VM; the instance webhook adds defaults, finalizers and the first status."""
    meta = vm["metadata"]
    template = vm["spec"]["template"]
    spec = copy.deepcopy(template["spec"])
    disks = spec["domain"].setdefault("devices", {}).setdefault("disks", [])
    named = {d["name"] for d in disks}
    disks += [
        {"name": v["name"], "disk": {"bus": "virtio"}} for v in spec.get("volumes") or [] if v["name"] not in named
    ]
    return {
        "apiVersion": VMI.api_version,
        "kind": VMI.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": dict(dig(template, "metadata", "labels") or {}),
            "annotations": {**(dig(template, "metadata", "annotations") or {}), GENERATION: str(meta["generation"])},
            "ownerReferences": [owner_reference(vm, VM)],
        },
        "spec": spec,
        "status": {"virtualMachineRevisionName": revision_name(vm)},
    }
