"""EtcdBackups: whether they can be taken, what became of them, and those that the operator makes and prunes itself.

A backup is taken by an operation of its cluster, like any other. So there is one executor at a time.
"""

from __future__ import annotations

from datetime import UTC, datetime

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig
from harness.kube.owners import follow
from harness.kube.reconcile import Controller
from harness.kube.resources import PVC, STORAGE_CLASS
from harness.operator.api.etcdbackup import MISSING, VERIFIED
from harness.operator.api.resources import ETCD_BACKUP
from harness.operator.context import OperatorContext
from harness.operator.controllers.backup_claim import ClaimTrouble, class_of, trouble_of
from harness.operator.controllers.backup_own import owners, surplus, to_make
from harness.operator.controllers.backup_status import FINAL, backup_status, claim_of, kept_status
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView, follow_backups

COMPONENT = "backups"


class Backups:
    """Reconciles the EtcdBackups of one cluster."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._looks = looks = ClusterLooks(context)
        self._claims = context.informers.of(PVC)
        self.controller = Controller("backups", self.reconcile)
        queue = self.controller.queue
        follow(looks.deployments, queue)
        follow(looks.clusters, queue)
        follow_backups(looks, queue)
        self._claims.subscribe(self._claim_changed)

    def _claim_changed(self, _: str, claim: Json) -> None:
        for one in self._looks.backups.list(key_of(claim)[0]):
            if dig(one, "status", "phase") != "Failed":
                self.controller.queue.add((key_of(claim)[0], one["spec"]["cluster"]))

    def reconcile(self, key: Key) -> float | None:
        """Look at the EtcdBackups of one cluster."""
        view = self._looks.view(key)
        found = (one for one in self._looks.backups.list(key[0]) if one["spec"]["cluster"] == key[1])
        own = [one for one in found if not deleting(one)]
        made = to_make(view, own) if view is not None else None
        if made is not None and self._cluster.create_if_absent(ETCD_BACKUP, made):
            return 0.0
        for one in own:
            self._settle(one, view)
        if view is not None and view.desired is not None and not deleting(view.deployment):
            for one in surplus(own, view.desired):
                self._cluster.delete(ETCD_BACKUP, one["metadata"]["name"], key[0])
        return None

    def _settle(self, backup: Json, view: DeclaredView | None) -> None:
        """Bring one EtcdBackup's status, and what it is deleted with, to what they have to be."""
        if view is not None and not deleting(view.deployment):
            wanted = owners(backup, view)
            if wanted != (backup["metadata"].get("ownerReferences") or []):
                backup = self._looks.backups.merge(backup, {"metadata": {"ownerReferences": wanted}})
        before = dig(backup, "status", "phase")
        if before in (VERIFIED, MISSING):
            claim = str(dig(backup, "status", "location") or "").partition(":")[0]
            status = kept_status(backup, self._claims.get(key_of(backup)[0], claim), datetime.now(UTC))
        else:
            trouble = None if before in FINAL else self._trouble(backup, view)
            status = backup_status(backup, view, trouble, datetime.now(UTC))
        if status == (backup.get("status") or {}):
            return
        self._looks.backups.replace_status(backup, status)
        if status["phase"] != before and status["phase"] in FINAL:
            verified = status["phase"] == "Verified"
            say = self._events.normal if verified else self._events.warning
            text = status["conditions"][-1]["message"] if not verified else f"it lies in {status['location']}"
            say(backup, f"Backup{status['phase']}", text, component=COMPONENT)

    def _trouble(self, backup: Json, view: DeclaredView | None) -> ClaimTrouble | None:
        deployment = view.deployment if view is not None else None
        name, namespace = claim_of(backup, deployment), key_of(backup)[0]
        if name is None:
            return None
        claim = self._claims.get(namespace, name)
        return trouble_of(name, claim, self._binding(class_of(claim)))

    def _binding(self, name: str | None) -> str | None:
        """Return how claims of a class are bound; None where that is not to be known."""
        try:
            found = self._cluster.get(STORAGE_CLASS, name) if name else None
        except ApiFailure as failure:
            if not failure.forbidden:
                raise
            return None
        return None if name is None else dig(found, "volumeBindingMode") or "Immediate"


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Backups(context).controller)
