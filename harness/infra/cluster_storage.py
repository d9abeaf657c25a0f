"""Whether disks can be had in an infra cluster: the storage class, and what CDI knows about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.infra.findings import Finding
from harness.kube import Cluster
from harness.kube.client import Json
from harness.kube.resources import STORAGE_CLASS, STORAGE_PROFILE

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
DEFAULT_VIRT_CLASS = "storageclass.kubevirt.io/is-default-virt-class"  # CDI prefers it over the former
ACCESS_MODE = "ReadWriteOnce"  # of machines' disks, vm-templates/disk.yml.j2
PROPERTIES = '{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem"}]}}'


def check_storage(cluster: Cluster, wanted: str | None) -> Iterator[Finding]:
    """Yield what keeps disks from being made.

    Args:
        wanted: the storage class that is named in the settings; None for the cluster's default.
    """
    classes = cluster.list(STORAGE_CLASS).items
    name = wanted or _default_class(classes)
    if name is None:
        yield Finding(
            "there is no default storage class",
            "disks are asked for without naming one",
            f"kubectl annotate storageclass NAME {DEFAULT_CLASS}=true",
        )
        return
    found = next((c for c in classes if c["metadata"]["name"] == name), None)
    if found is None:
        there = ", ".join(sorted(c["metadata"]["name"] for c in classes)) or "none"
        yield Finding(
            f"there is no storage class {name}",
            "the setting storage_class names it",
            f"set storage_class in vmatrix.yml to one of: {there}",
        )
        return
    yield from _profile(cluster, name)
    yield from _binding(found)


def _default_class(classes: Sequence[Json]) -> str | None:
    for annotation in (DEFAULT_VIRT_CLASS, DEFAULT_CLASS):
        for storage_class in classes:
            if (storage_class["metadata"].get("annotations") or {}).get(annotation) == "true":
                return str(storage_class["metadata"]["name"])
    return None


def _profile(cluster: Cluster, name: str) -> Iterator[Finding]:
    status = (cluster.get(STORAGE_PROFILE, name) or {}).get("status") or {}
    sets = status.get("claimPropertySets") or []
    patch = f"kubectl patch storageprofile {name} --type merge -p '{PROPERTIES}'"
    if not sets:
        yield Finding(
            f"the StorageProfile of storage class {name} has no claimPropertySets",
            "CDI cannot tell which access mode a disk gets",
            patch,
        )
    elif not any(ACCESS_MODE in (one.get("accessModes") or []) for one in sets):
        modes = sorted({mode for one in sets for mode in one.get("accessModes") or []})
        yield Finding(
            f"the StorageProfile of storage class {name} has {', '.join(modes)} and not {ACCESS_MODE}",
            f"machines' disks are asked for as {ACCESS_MODE}",
            patch,
        )


def _binding(storage_class: Json) -> Iterator[Finding]:
    name = storage_class["metadata"]["name"]
    if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        yield Finding(
            f"storage class {name} binds when a pod comes (WaitForFirstConsumer)",
            "disks are bound before their machine has a node; where volumes belong to one, it has to fit there",
            "set storage_class to one that all nodes reach, or whose volumeBindingMode is Immediate",
            fatal=False,
        )
