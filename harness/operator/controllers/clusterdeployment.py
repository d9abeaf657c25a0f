"""ClusterDeployments: their Cluster and MachineSets, their status, and the finalizer that waits for the reset.

The finalizer is there while something is or may soon be deployed that a deletion has to undo. Nothing is made of an
object with mistakes; what was made of it before stays as it is.
"""

from __future__ import annotations

from datetime import UTC, datetime

from harness.kube.informer import Key, labels_of
from harness.kube.objects import deleting
from harness.kube.owners import follow, follow_children
from harness.kube.reconcile import Controller
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, RESET_FINALIZER, UID_LABEL
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import follow_claims
from harness.operator.controllers.cluster_children import make_children
from harness.operator.controllers.cluster_summary import status_of
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView, follow_backups, of_uid, owned_by
from harness.operator.controllers.product_files import again_for
from harness.operator.decide.operations import Nothing


class ClusterDeploymentController:
    """Reconciles ClusterDeployments."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller("clusterdeployment", self.reconcile)
        queue = self.controller.queue
        follow(looks.deployments, queue)
        follow(looks.clusters, queue)
        follow_children(looks.sets, CLUSTER_DEPLOYMENT, queue)
        follow_claims(looks.machines, queue)
        follow_backups(looks, queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one ClusterDeployment; change one thing."""
        view = self._looks.view(key)
        if view is None:
            self._orphan(key)
            return None
        if self._finalizer(view) or self._children(view):
            return 0.0
        self._status(view)
        return again_for(view.wish)

    def _orphan(self, key: Key) -> None:
        """Delete the Cluster of an object that went without its finalizer: somebody has taken it off by hand."""
        found = self._looks.clusters.get(*key)
        if found is None or deleting(found) or UID_LABEL not in labels_of(found):
            return
        owned = bool(found["metadata"].get("ownerReferences"))
        if not owned and self._cluster.get(CLUSTER_DEPLOYMENT, key[1], key[0]) is None:
            self._cluster.delete(CLUSTER, key[1], key[0])

    def _finalizer(self, view: DeclaredView) -> bool:
        """Put the finalizer on, or take it off; tell whether that was to do."""
        finalizers = view.deployment["metadata"].get("finalizers") or []
        has = RESET_FINALIZER in finalizers
        if has == _needed(view, has=has):
            return False
        namespace, name = view.key
        if has:
            found = self._cluster.get(CLUSTER, name, namespace)  # the local copy may be older than an operation
            mine = found is not None and owned_by(found, view.deployment)
            if _needed(self._looks.seen(view.deployment, found if mine else None), has=True):
                return False
            if deleting(view.deployment):
                self._cluster.delete(CLUSTER, name, namespace)
        others = [one for one in finalizers if one != RESET_FINALIZER]
        patch = {"metadata": {"finalizers": others if has else [*others, RESET_FINALIZER]}}
        self._looks.deployments.merge(view.deployment, patch)
        return True

    def _children(self, view: DeclaredView) -> bool:
        if view.wish is None or view.mistakes or deleting(view.deployment):
            return False
        return make_children(self._cluster, self._looks.clusters, self._looks.sets, view.deployment, view.wish)

    def _status(self, view: DeclaredView) -> None:
        """Write the status, if it is another one."""
        sets = self._looks.sets.by(of_uid, view.deployment["metadata"]["uid"])
        status = status_of(view, sets, datetime.now(UTC))
        if status != view.deployment.get("status"):
            self._looks.deployments.replace_status(view.deployment, status)


def _needed(view: DeclaredView, *, has: bool) -> bool:
    """Tell whether the deletion of an object has to wait for a reset."""
    if view.wish is None:
        return has and view.observed.touched
    if view.wish.spec.deletion.machines != "Reset":
        return False
    if deleting(view.deployment):
        return has and not (view.observed.running is None and isinstance(view.verdict, Nothing))
    return has or view.observed.sequence > 0 or not view.mistakes


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(ClusterDeploymentController(context).controller)
