"""Snapshots of golden images: where a storage class clones from them, a clone takes no time and holds nobody up.

Only where CDI's StorageProfile names `snapshot` as the way to clone and a class of snapshots, and where the job may
make them; else machines are cloned from the golden image's claim. Nothing here is worth failing for.
"""

from __future__ import annotations

import logging

from harness.cell.site import Site
from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Json
from harness.kube.resources import DATA_SOURCE, PVC, STORAGE_PROFILE, VOLUME_SNAPSHOT
from harness.machines.kubevirt.manifests import Origin
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.until import Deadline, NotYet, until

log = logging.getLogger(__name__)
SNAPSHOT = "snapshot"
LABELS = {LABEL_MANAGED: MANAGED_BY}


def snapshot_of(site: Site, name: str) -> Origin | None:
    """Return a snapshot of a golden image as what machines are cloned from, made at the first call.

    Args:
        name: of the golden image's claim, which is whole.

    Returns:
        None where the class clones otherwise, or the snapshot cannot be had.
    """
    try:
        wanted = _snapshot_class(site, name)
        if wanted is None:
            return None
        _ensure_snapshot(site, name, wanted)
        spec = {"source": {"snapshot": {"namespace": site.images_namespace, "name": name}}}
        site.cluster.create_if_absent(
            DATA_SOURCE, DATA_SOURCE.manifest(name, site.images_namespace, labels=LABELS, spec=spec)
        )
    except ApiFailure as refused:
        if not (refused.forbidden or refused.not_found):
            raise
        log.info("no snapshot of %s: %s", name, refused.summary)
        return None
    except VmatrixError as failure:
        log.warning("no snapshot of %s: %s", name, failure.summary)
        return None
    return Origin("data source", site.images_namespace, name)


def _snapshot_class(site: Site, name: str) -> str | None:
    """Return the class of snapshots by which CDI clones claims such as the golden image's."""
    claims = site.cluster.list(PVC, site.images_namespace, fields=f"metadata.name={name}").items
    storage_class = next((c["spec"].get("storageClassName") for c in claims), site.storage_class)
    profile = site.cluster.get(STORAGE_PROFILE, storage_class) if storage_class else None
    status = (profile or {}).get("status") or {}
    return (status.get("snapshotClass") or None) if status.get("cloneStrategy") == SNAPSHOT else None


def _ensure_snapshot(site: Site, name: str, snapshot_class: str) -> None:
    namespace = site.images_namespace
    spec = {"volumeSnapshotClassName": snapshot_class, "source": {"persistentVolumeClaimName": name}}
    site.cluster.create_if_absent(VOLUME_SNAPSHOT, VOLUME_SNAPSHOT.manifest(name, namespace, labels=LABELS, spec=spec))

    def usable() -> bool | NotYet:
        status: Json = (site.cluster.get(VOLUME_SNAPSHOT, name, namespace) or {}).get("status") or {}
        if status.get("readyToUse"):
            return True
        return NotYet(str((status.get("error") or {}).get("message") or "not ready to use"))

    until(
        usable,
        deadline=Deadline.after(site.timeouts.golden_stall),
        what=f"VolumeSnapshot {namespace}/{name} to be usable",
        interval=0.2,
    )
