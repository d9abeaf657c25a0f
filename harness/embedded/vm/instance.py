"""Objects of a VirtualMachine, as KubeVirt's VM controller makes them: instance, ControllerRevision, DataVolumes."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from harness.kube.client import Json
from harness.kube.informer import Informer
from harness.kube.objects import controller_of, dig, owner_reference
from harness.kube.resources import DATA_VOLUME, VM, VMI

CREATED_BY = "kubevirt.io/created-by"
CONSUMER_PHASES = frozenset({"WaitForFirstConsumer", "PendingPopulation"})
USABLE_PHASES = frozenset({"Succeeded", *CONSUMER_PHASES})  # phases of a DataVolume on which an instance may be started
CONTROLLER_FINALIZER = "kubevirt.io/virtualMachineControllerFinalize"
FOREGROUND_FINALIZER = "kubevirt.io/foregroundDeleteVirtualMachine"
GENERATION = "kubevirt.io/vm-generation"
OBSERVED = dict.fromkeys(("kubevirt.io/latest-observed-api-version", "kubevirt.io/storage-observed-api-version"), "v1")
LAUNCHER_USER = 107  # "qemu" in KubeVirt's launcher image


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


def revision_name(vm: Json) -> str:
    """Return the name of the ControllerRevision that holds what this generation was started from."""
    return f"revision-start-vm-{vm['metadata']['uid']}-{vm['metadata']['generation']}"


def data_volume_from(vm: Json, template: Json) -> Json:
    """Return the DataVolume that a `dataVolumeTemplates` entry asks for."""
    meta = template.get("metadata") or {}
    return {
        "apiVersion": DATA_VOLUME.api_version,
        "kind": DATA_VOLUME.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": vm["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), CREATED_BY: vm["metadata"]["uid"]},
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner_reference(vm, VM)],
        },
        "spec": copy.deepcopy(template["spec"]),
    }


def data_volume_templates(vm: Json) -> list[Json]:
    """Return a VM's dataVolumeTemplates."""
    return dig(vm, "spec", "dataVolumeTemplates") or []


def template_spec(vm: Json) -> Json:
    """Return the spec that a VM's instances get."""
    return dig(vm, "spec", "template", "spec") or {}


def claim_names(spec: Json) -> list[str]:
    """Return the claims that an instance's volumes name, DataVolumes' included (theirs bear the same name)."""
    return [name for volume in spec.get("volumes") or [] if (name := claim_name(volume))]


def claim_name(volume: Json) -> str | None:
    """Return the claim behind a volume, None when it has none."""
    name = dig(volume, "dataVolume", "name") or dig(volume, "persistentVolumeClaim", "claimName")
    return str(name) if name else None


def existing_objects(informer: Informer, namespace: str, names: Iterable[str]) -> list[Json]:
    """Return the objects of those names that exist."""
    return [obj for name in names if (obj := informer.get(namespace, name)) is not None]


def data_volume_of(claim: Json | None) -> str | None:
    """Return the DataVolume that made a claim, None for a claim of its own."""
    owner = controller_of(claim) if claim is not None else None
    return str(owner["name"]) if owner is not None and owner["kind"] == DATA_VOLUME.kind else None


def snapshot_statuses(vm: Json) -> list[Json]:
    """Return why no volume can be snapshot here: there is no snapshot class."""
    on_claim = "No VolumeSnapshotClass: Volume snapshots are not configured for this StorageClass []"
    elsewhere = "Snapshot is not supported for this volumeSource type"
    return [
        {"enabled": False, "name": v["name"], "reason": f"{on_claim if claim_name(v) else elsewhere} [{v['name']}]"}
        for v in template_spec(vm).get("volumes") or []
    ]
