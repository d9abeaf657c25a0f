"""Whether an infra cluster can make disks: the storage class, and what CDI knows about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.infra.cluster.access import allowed
from harness.infra.cluster.rights import SNAPSHOTS
from harness.infra.findings import Finding
from harness.kube import Cluster
from harness.kube.client import Json
from harness.kube.resources import CDI, STORAGE_CLASS, STORAGE_PROFILE

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
DEFAULT_VIRT_CLASS = "storageclass.kubevirt.io/is-default-virt-class"  # CDI prefers it over the former
LOCAL_PATH = "rancher.io/local-path"  # the provisioner of pods' claims on the infra clusters that vmatrix makes
WAITS, SNAPSHOT = "WaitForFirstConsumer", "snapshot"
HONOURS = "HonorWaitForFirstConsumer"
ACCESS_MODE = "ReadWriteOnce"  # of machines' disks, vm-templates/disk.yml.j2
PROPERTIES = '{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem"}]}}'


def check_storage(cluster: Cluster, wanted: str | None) -> Iterator[Finding]:
    """Yield what keeps disks from being made in the storage class of the settings (None: the cluster's default)."""
    classes = cluster.list(STORAGE_CLASS).items
    name = wanted or _default_class(classes)
    if name is None:
        yield Finding(
            "no default storage class exists",
            "disks are requested without naming a class",
            f"kubectl annotate storageclass NAME {DEFAULT_CLASS}=true",
        )
        return
    found = next((c for c in classes if c["metadata"]["name"] == name), None)
    if found is None:
        there = ", ".join(sorted(c["metadata"]["name"] for c in classes)) or "none"
        yield Finding(
            f"storage class {name} does not exist",
            "it is the setting storage_class",
            f"set storage_class in vmatrix.yml to one of: {there}",
        )
        return
    profile = (cluster.get(STORAGE_PROFILE, name) or {}).get("status") or {}
    yield from _profile(profile, name)
    yield from _cloning(cluster, profile, name)
    yield from _binding(cluster, found)


def _default_class(classes: Sequence[Json]) -> str | None:
    metas = [storage_class["metadata"] for storage_class in classes]
    order = ((annotation, meta) for annotation in (DEFAULT_VIRT_CLASS, DEFAULT_CLASS) for meta in metas)
    return next((str(meta["name"]) for a, meta in order if (meta.get("annotations") or {}).get(a) == "true"), None)


def _profile(status: Mapping[str, Any], name: str) -> Iterator[Finding]:
    sets = status.get("claimPropertySets") or []
    patch = f"kubectl patch storageprofile {name} --type merge -p '{PROPERTIES}'"
    if not sets:
        yield Finding(
            f"the StorageProfile of storage class {name} has no claimPropertySets",
            "CDI does not know which access mode a disk gets",
            patch,
        )
    elif not any(ACCESS_MODE in (one.get("accessModes") or []) for one in sets):
        modes = sorted({mode for one in sets for mode in one.get("accessModes") or []})
        yield Finding(
            f"the StorageProfile of storage class {name} has {', '.join(modes)} and not {ACCESS_MODE}",
            f"machines' disks request {ACCESS_MODE}",
            patch,
        )


def _cloning(cluster: Cluster, status: Mapping[str, Any], name: str) -> Iterator[Finding]:
    """Yield what makes each machine's disk a copy, where the class promises a faster way."""
    if status.get("cloneStrategy") != SNAPSHOT:
        return
    if not status.get("snapshotClass"):
        yield Finding(
            f"the StorageProfile of storage class {name} clones by snapshots, but names no snapshot class",
            "CDI copies each machine's disk over the network instead, with two pods",
            f"create a VolumeSnapshotClass for the driver {status.get('provisioner', '')}, or: kubectl patch "
            f'storageprofile {name} --type merge -p \'{{"spec":{{"cloneStrategy":"csi-clone"}}}}\'',
            fatal=False,
        )
        return
    refused = [right.plural for right in SNAPSHOTS if not all(allowed(cluster, right, verb) for verb in right.verbs)]
    if refused:
        yield Finding(
            f"not allowed: {', '.join(refused)}, which storage class {name} needs to clone faster",
            "each machine is cloned from a separate snapshot instead of a shared one",
            "apply snapshots.yml of deploy/rbac in the namespace of the golden images",
            fatal=False,
        )


def _binding(cluster: Cluster, storage_class: Json) -> Iterator[Finding]:
    name = storage_class["metadata"]["name"]
    if storage_class.get("volumeBindingMode") != WAITS:
        return
    yield Finding(
        f"storage class {name} binds volumes when a pod uses them (WaitForFirstConsumer)",
        "golden images are bound at once, machines' disks on their machine's node. If a volume belongs to one node, "
        "disks are copied across nodes, and machines wait for nodes without free disk space",
        "set storage_class to a class that all nodes can use, or keep disk space free on every node",
        fatal=False,
    )
    if not any(HONOURS in _gates(cdi) for cdi in cluster.list(CDI).items):
        yield Finding(
            f"CDI's feature gate {HONOURS} is off, but storage class {name} waits for consumers",
            "importers may bind machines' disks to nodes that have no room for the machines",
            f'kubectl patch cdi cdi --type merge -p \'{{"spec":{{"config":{{"featureGates":["{HONOURS}"]}}}}}}\'',
            fatal=False,
        )


def _gates(cdi: Json) -> Sequence[str]:
    gates: Sequence[str] = ((cdi.get("spec") or {}).get("config") or {}).get("featureGates") or []
    return gates
