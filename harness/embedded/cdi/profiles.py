"""StorageProfiles: what CDI knows of each storage class of ours; the default one's is installed with the class."""

from __future__ import annotations

from harness.embedded.cdi import classes
from harness.embedded.context import Context
from harness.embedded.objects import dig
from harness.embedded.operands import STORAGE_CLASS as DEFAULT_CLASS
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.reconcile import Controller
from harness.kube.resources import SNAPSHOT_CLASS, STORAGE_CLASS, STORAGE_PROFILE

KNOWN = [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]


class Profiles:
    """Reconciles StorageClasses into StorageProfiles."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._classes = context.informers.of(STORAGE_CLASS)
        self._profiles = context.informers.of(STORAGE_PROFILE)
        self._snapshots = context.informers.of(SNAPSHOT_CLASS)
        self.controller = Controller("storage-profiles", self.reconcile, workers=1)
        self._classes.subscribe(lambda _, made: self.controller.queue.add(("", made["metadata"]["name"])))
        self._profiles.subscribe(lambda _, profile: self.controller.queue.add(("", profile["metadata"]["name"])))
        self._snapshots.subscribe(lambda _, __: self._all())

    def _all(self) -> None:
        for storage_class in self._classes.list():
            self.controller.queue.add(("", key_of(storage_class)[1]))

    def reconcile(self, key: Key) -> float | None:
        """Write one class's profile, or take away that of a class that is gone."""
        name = key[1]
        storage_class, profile = self._classes.get("", name), self._profiles.get("", name)
        if name == DEFAULT_CLASS:
            return None
        if storage_class is None or storage_class.get("provisioner") not in classes.OURS:
            if profile is not None and dig(profile, "status", "provisioner") in classes.OURS:
                self._context.cluster.delete(STORAGE_PROFILE, name)
            return None
        if profile is None:
            body = {"apiVersion": STORAGE_PROFILE.api_version, "kind": STORAGE_PROFILE.kind, "spec": {}}
            profile = self._context.cluster.ensure(STORAGE_PROFILE, {**body, "metadata": {"name": name}})
        status = self._status(storage_class, profile)
        if status != (profile.get("status") or {}):
            self._context.cluster.merge(STORAGE_PROFILE, name, {"status": status}, subresource="status")
        return None

    def _status(self, storage_class: Json, profile: Json) -> Json:
        snapshots = classes.snapshot_class(self._snapshots.list(), storage_class)
        snapshots = dig(profile, "spec", "snapshotClass") or snapshots
        known = [] if dig(storage_class, "parameters", "profile") == classes.UNKNOWN_PROFILE else KNOWN
        return {
            "claimPropertySets": dig(profile, "spec", "claimPropertySets") or known,
            "cloneStrategy": classes.clone_strategy(storage_class, profile, snapshots),
            "dataImportCronSourceFormat": "snapshot" if snapshots else "pvc",
            "provisioner": storage_class["provisioner"],
            "storageClass": storage_class["metadata"]["name"],
            **({"snapshotClass": snapshots} if snapshots else {}),
        }
