"""VolumeSnapshots of claims of our CSI-like class: a second file with the disk's blocks, gone with the snapshot.

There is no VolumeSnapshotContent: nobody looks at one, and the snapshot's own finalizer keeps its file.
"""

from __future__ import annotations

from pathlib import Path

from harness.embedded.cdi import classes, images, sizes
from harness.embedded.cdi.download import TransferFailed
from harness.embedded.cdi.provisioner import disk_path, snapshot_file
from harness.embedded.context import Context
from harness.embedded.objects import deleting, dig, now, phase
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.reconcile import Controller
from harness.kube.resources import PVC, SNAPSHOT_CLASS, VOLUME_SNAPSHOT

FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
SOON_SECONDS = 0.5


def snapshot_path(state: Path, snapshot: Json) -> Path:
    """Return the file behind a VolumeSnapshot."""
    return snapshot_file(state, snapshot["metadata"]["uid"])


def sweep(cluster: Cluster, state: Path) -> None:
    """Remove the files of snapshots that do not exist."""
    known = {snapshot_path(state, found) for found in cluster.list(VOLUME_SNAPSHOT).items}
    for file in (state / "snapshots").glob("*.raw"):
        if file not in known:
            file.unlink(missing_ok=True)


class Snapshots:
    """Reconciles VolumeSnapshots."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._snapshots = context.informers.of(VOLUME_SNAPSHOT)
        self._classes = context.informers.of(SNAPSHOT_CLASS)
        self._claims = context.informers.of(PVC)
        self.controller = Controller("snapshots", self.reconcile, workers=2)
        self._snapshots.subscribe(lambda _, snapshot: self.controller.queue.add(key_of(snapshot)))

    def reconcile(self, key: Key) -> float | None:
        """Make one snapshot's file and say so, or take it away with the snapshot."""
        snapshot = self._snapshots.get(*key)
        if snapshot is None or not self._is_ours(snapshot):
            return None
        if deleting(snapshot):
            self._let_go(snapshot)
            return None
        if dig(snapshot, "status", "readyToUse"):
            return None
        if FINALIZER not in (snapshot["metadata"].get("finalizers") or []):
            self._patch(snapshot, {"metadata": {"finalizers": [FINALIZER]}})
            return None
        claim = self._claims.get(key[0], str(dig(snapshot, "spec", "source", "persistentVolumeClaimName")))
        if claim is None or phase(claim) != "Bound":
            message = f"the claim {dig(snapshot, 'spec', 'source', 'persistentVolumeClaimName')} is not bound"
            self._failed(snapshot, message)
            return SOON_SECONDS
        return self._make(snapshot, claim)

    def _is_ours(self, snapshot: Json) -> bool:
        found = self._classes.get("", str(dig(snapshot, "spec", "volumeSnapshotClassName")))
        return found is not None and found.get("driver") == classes.CSI

    def _make(self, snapshot: Json, claim: Json) -> float | None:
        file = snapshot_path(self._context.state, snapshot)
        file.parent.mkdir(exist_ok=True)
        unfinished = file.with_suffix(".part")
        try:
            images.clone(disk_path(self._context.disks, claim["spec"]["volumeName"]), unfinished, 0)
        except TransferFailed as failure:
            unfinished.unlink(missing_ok=True)
            self._failed(snapshot, str(failure))
            return SOON_SECONDS
        unfinished.replace(file)
        size = sizes.requested_bytes(claim)
        status = {"readyToUse": True, "creationTime": now(), "restoreSize": str(size), "error": None}
        self._patch(snapshot, {"status": status}, subresource="status")
        return None

    def _failed(self, snapshot: Json, message: str) -> None:
        if dig(snapshot, "status", "error", "message") != message:
            error = {"message": message, "time": now()}
            self._patch(snapshot, {"status": {"readyToUse": False, "error": error}}, subresource="status")

    def _let_go(self, snapshot: Json) -> None:
        snapshot_path(self._context.state, snapshot).unlink(missing_ok=True)
        held = snapshot["metadata"].get("finalizers") or []
        if FINALIZER in held:
            self._patch(snapshot, {"metadata": {"finalizers": [f for f in held if f != FINALIZER]}})

    def _patch(self, snapshot: Json, patch: Json, *, subresource: str | None = None) -> None:
        meta = snapshot["metadata"]
        body = {**patch, "metadata": {"uid": meta["uid"], **patch.get("metadata", {})}}
        try:
            self._context.cluster.merge(VOLUME_SNAPSHOT, meta["name"], body, meta["namespace"], subresource=subresource)
        except ApiFailure as failure:
            if failure.code not in {404, 409}:
                raise
