"""Scratch space: the claim into which an importer downloads; it belongs to the importer's pod, and goes with it.

As CDI makes it (v1.66.0, pkg/controller/util.go: `createScratchPersistentVolumeClaim`): of the default storage class,
for as large a disk. The downloads of this package lie elsewhere on the host; the claim is there for what it costs:
room in a quota, a volume, and time.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.cdi import classes, names, sizes
from harness.kube.client import Json
from harness.kube.objects import owner_reference
from harness.kube.resources import POD


def wanted(claim: Json) -> bool:
    """Tell whether the importer of a claim asked for scratch space that it does not have yet."""
    return names.annotations_of(claim).get(names.REQUIRES_SCRATCH) == "true"


def scratch_claim(claim: Json, pod: Json, storage_classes: Sequence[Json]) -> Json:
    """Return the scratch claim of an importer's pod."""
    meta = claim["metadata"]
    storage_class = classes.default_class(storage_classes) or claim["spec"].get("storageClassName") or ""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.scratch_name(meta["name"]),
            "namespace": meta["namespace"],
            "labels": {**names.APP, **names.RECOMMENDED_LABELS},
            "ownerReferences": [owner_reference(pod, POD)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(sizes.aligned(sizes.claim_bytes(sizes.disk_bytes(claim))))}},
            **({"storageClassName": storage_class} if storage_class else {}),
        },
    }
