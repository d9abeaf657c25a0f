"""Provisioner of the storage class: a sparse raw file and a PersistentVolume for every claim, both gone with the claim.

Kubernetes' own controller binds claim and volume. A finalizer keeps a volume object until its file is removed.
The default storage class is made at the installation; each class with this provisioner gets a StorageProfile.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.embedded.cdi import transfers
from harness.embedded.cdi.claims import FILESYSTEM, annotations_of, disk_bytes
from harness.embedded.context import Context
from harness.embedded.operands import PROVISIONER, storage_profile
from harness.errors import InfraError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, ensure, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import PV, PVC, STORAGE_CLASS, STORAGE_PROFILE

log = logging.getLogger(__name__)
DEFAULT_CLASS = ("storageclass.kubevirt.io/is-default-virt-class", "storageclass.kubernetes.io/is-default-class")
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
FINALIZER = "vmatrix.dev/disk-file"
COMPONENT = PROVISIONER
REFUSED_SECONDS = 2.0  # between two tries to make a volume that was refused
KEPT_FREE_BYTES = 2 * 2**30


def disk_path(disks: Path, volume: str) -> Path:
    """Return the file behind a PersistentVolume."""
    return disks / f"{volume}.raw"


def scratch_dir(state: Path) -> Path:
    """Return the folder of unfinished disks and downloads; on the disks' file system, so that a rename finishes one."""
    return state / "scratch"


def space_refusal(disks: Path, free_bytes: int | None = None) -> str:
    """Say why no further disk is made, "" when one may be: a full file system would break every guest at once."""
    free = free_bytes if free_bytes is not None else shutil.disk_usage(disks).free
    if free >= KEPT_FREE_BYTES:
        return ""
    kept = f"{KEPT_FREE_BYTES >> 20} MiB are kept for the disks that grow there"
    return f"no space left: {free >> 20} MiB are free below {disks}, and {kept}"


def sweep(cluster: Cluster, state: Path, disks: Path) -> None:
    """Remove what a killed process left: unfinished transfers, and files whose volume does not exist."""
    shutil.rmtree(scratch_dir(state), ignore_errors=True)
    disks.mkdir(parents=True, exist_ok=True)
    known = {disk_path(disks, volume["metadata"]["name"]) for volume in cluster.list(PV).items}
    for file in disks.glob("*.raw"):
        if file not in known:
            log.info("removing %s: no volume has it", file)
            file.unlink(missing_ok=True)


class Provisioner:
    """Reconciles claims into volumes, and takes released volumes away."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._claims = context.informers.of(PVC)
        self._volumes = context.informers.of(PV)
        self._classes = context.informers.of(STORAGE_CLASS)
        self.claims = Controller("provision", self.provision)
        self.volumes = Controller("reclaim", self.reclaim)
        self._claims.subscribe(lambda _, claim: self.claims.queue.add(key_of(claim)))
        self._volumes.subscribe(lambda _, volume: self.volumes.queue.add(key_of(volume)))
        self._classes.subscribe(lambda _, __: self._look_again())

    def _look_again(self) -> None:
        for claim in self._claims.list():
            if phase(claim) == "Pending":
                self.claims.queue.add(key_of(claim))

    def provision(self, key: Key) -> float | None:
        """Make the file and the volume of a claim that waits for them."""
        claim = self._claims.get(*key)
        if claim is None or deleting(claim) or claim["spec"].get("volumeName"):
            return None
        storage_class = self._classes.get("", claim["spec"].get("storageClassName") or "")
        if storage_class is None or not self._is_ours(claim, storage_class):
            return None
        failed = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}"'
        if refused := transfers.without_volume(self._context.faults, claim) or space_refusal(self._context.disks):
            self._context.events.warning(claim, "ProvisioningFailed", f"{failed}: {refused}", component=COMPONENT)
            return REFUSED_SECONDS
        try:
            volume = self._make(claim, storage_class)
        except OSError as error:
            message = f"{failed}: {error}"
            self._context.events.warning(claim, "ProvisioningFailed", message, component=COMPONENT)
            raise InfraError(f"claim {'/'.join(key)}: {message}", hint="free some space on the disk") from error
        message = f"Successfully provisioned volume {volume}"
        self._context.events.normal(claim, "ProvisioningSucceeded", message, component=COMPONENT)
        return None

    def _is_ours(self, claim: Json, storage_class: Json) -> bool:
        if storage_class.get("provisioner") != PROVISIONER or claim["spec"].get("selector"):
            return False
        chosen = annotations_of(claim).get(SELECTED_NODE) in self._context.nodes
        return chosen or not binds_late(storage_class)

    def _make(self, claim: Json, storage_class: Json) -> str:
        volume = f"pvc-{claim['metadata']['uid']}"
        if self._volumes.get("", volume) is not None:
            return volume
        file = disk_path(self._context.disks, volume)
        with file.open("ab") as sparse:
            sparse.truncate(max(disk_bytes(claim), file.stat().st_size))
        self._context.cluster.ensure(PV, self._volume(volume, file, claim, storage_class))
        return volume

    def _volume(self, name: str, file: Path, claim: Json, storage_class: Json) -> Json:
        chosen = annotations_of(claim).get(SELECTED_NODE)
        places = [chosen] if chosen in self._context.nodes else [*self._context.nodes]
        node = {"key": "kubernetes.io/hostname", "operator": "In", "values": places}
        same = {key: claim["metadata"][key] for key in ("namespace", "name", "uid", "resourceVersion")}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": name,
                "annotations": {PROVISIONED_BY: PROVISIONER},
                "finalizers": [FINALIZER],
            },
            "spec": {
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "accessModes": claim["spec"]["accessModes"],
                "volumeMode": claim["spec"].get("volumeMode") or FILESYSTEM,
                "storageClassName": storage_class["metadata"]["name"],
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
                "local": {"path": str(file)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **same},
            },
        }

    def reclaim(self, key: Key) -> float | None:
        """Take a volume away whose claim is gone, or that somebody deleted: the file first, then the object."""
        volume = self._volumes.get(*key)
        if volume is None or annotations_of(volume).get(PROVISIONED_BY) != PROVISIONER or phase(volume) == "Bound":
            return None
        reclaimable = phase(volume) == "Released" and dig(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete"
        if not reclaimable and not deleting(volume):
            return None
        disk_path(self._context.disks, key[1]).unlink(missing_ok=True)
        if not deleting(volume):
            self._context.cluster.delete(PV, key[1])
        self._release(volume)
        return None

    def _release(self, volume: Json) -> None:
        """Let the volume object go, by taking our finalizer off its latest version."""
        latest = self._context.cluster.get(PV, volume["metadata"]["name"])
        finalizers = (latest or volume)["metadata"].get("finalizers") or []
        if latest is None or FINALIZER not in finalizers:
            return
        latest["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
        try:
            self._context.cluster.replace(PV, latest)
        except ApiFailure as failure:
            if not failure.not_found:
                raise


def default_class(classes: Sequence[Json]) -> str:
    """Return the name of the default storage class (the one for virtual machines first), "" when there is none."""
    for annotation in DEFAULT_CLASS:
        for candidate in classes:
            if annotations_of(candidate).get(annotation) == "true":
                return str(candidate["metadata"]["name"])
    return ""


def binds_late(storage_class: Json | None) -> bool:
    """Tell whether claims of a class are bound by their first consumer."""
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


class StorageProfiles:
    """Reconciles StorageClasses of our provisioner into StorageProfiles."""

    def __init__(self, context: Context) -> None:
        self._cluster = context.cluster
        self._classes = context.informers.of(STORAGE_CLASS)
        self.controller = Controller("storage-profiles", self.reconcile, workers=1)
        self._classes.subscribe(lambda _, made: self.controller.queue.add(("", made["metadata"]["name"])))

    def reconcile(self, key: Key) -> float | None:
        """Write one class's profile, or delete that of a class that is gone."""
        name = key[1]
        storage_class = self._classes.get("", name)
        if storage_class is None:
            profile = self._cluster.get(STORAGE_PROFILE, name) or {}
            if (profile.get("status") or {}).get("provisioner") == PROVISIONER:
                self._cluster.delete(STORAGE_PROFILE, name)
        elif storage_class.get("provisioner") == PROVISIONER:
            ensure(self._cluster, STORAGE_PROFILE, storage_profile(name), status_subresource=True)
        return None
