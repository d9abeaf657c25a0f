"""Storage classes of our provisioner: bound at once, or by the first pod that uses the claim.

The default class is made at the installation. Whoever wants another makes a StorageClass with the same provisioner.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.cdi import names
from harness.embedded.context import Context
from harness.embedded.operands import PROVISIONER, storage_profile
from harness.kube.client import Json
from harness.kube.ensure import ensure
from harness.kube.informer import Key
from harness.kube.reconcile import Controller
from harness.kube.resources import STORAGE_CLASS, STORAGE_PROFILE

DEFAULT_CLASS = ("storageclass.kubevirt.io/is-default-virt-class", "storageclass.kubernetes.io/is-default-class")


def default_class(classes: Sequence[Json]) -> str:
    """Return the name of the default storage class (the one for virtual machines first), "" when there is none."""
    for annotation in DEFAULT_CLASS:
        for candidate in classes:
            if names.annotations_of(candidate).get(annotation) == "true":
                return str(candidate["metadata"]["name"])
    return ""


def binds_late(storage_class: Json | None) -> bool:
    """Tell whether claims of a class are bound by their first consumer."""
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


class Profiles:
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
