"""Storage classes as they differ for CDI: a plain provisioner, or one that a CSI driver stands behind.

A class of the plain provisioner has the legacy flow: importers write into the claim itself, and clones are copies. A
class of the other is filled by populators: the work happens in a second claim, whose volume the first one then gets; it
has snapshots where a VolumeSnapshotClass names its driver. Whoever wants another class than the default one makes a
StorageClass with one of the two provisioners; its parameter `profile: unknown` keeps CDI from knowing its access modes.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.cdi import names
from harness.embedded.objects import dig
from harness.kube.client import Json

PLAIN = "vmatrix.dev/local-disk"
CSI = "disk.csi.vmatrix.dev"
OURS = frozenset({PLAIN, CSI})
STRATEGY_ANNOTATION = f"{names.GROUP}/clone-strategy"
COPY, SNAPSHOT, CSI_CLONE = "copy", "snapshot", "csi-clone"
WAITS = "WaitForFirstConsumer"
UNKNOWN_PROFILE = "unknown"


def populates(storage_class: Json | None) -> bool:
    """Tell whether claims of a class are filled by populators."""
    return (storage_class or {}).get("provisioner") == CSI


def waits(storage_class: Json | None, claim_or_volume: Json) -> bool:
    """Tell whether a claim (or its DataVolume) of a class waits for its first consumer."""
    if (storage_class or {}).get("volumeBindingMode") != WAITS:
        return False
    return names.annotations_of(claim_or_volume).get(names.IMMEDIATE) != "true"


def snapshot_class(classes: Sequence[Json], storage_class: Json | None) -> str:
    """Return the class of snapshots that has a storage class's driver, "" without one."""
    driver = (storage_class or {}).get("provisioner")
    return next((str(c["metadata"]["name"]) for c in classes if populates(storage_class) and c["driver"] == driver), "")


def clone_strategy(storage_class: Json, profile: Json | None, snapshots: str) -> str:
    """Return how CDI clones claims of a class: as its profile or its annotation say, else by what it can."""
    wanted = dig(profile, "spec", "cloneStrategy") or names.annotations_of(storage_class).get(STRATEGY_ANNOTATION)
    if wanted:
        return str(wanted)
    return SNAPSHOT if snapshots else CSI_CLONE if populates(storage_class) else COPY
