"""ClusterDeployments: their Cluster and MachineSets, their status, and the finalizer that waits for the reset.

The finalizer is there while something is or may soon be deployed that a deletion has to undo. Nothing is made of an
object with mistakes; what was made of it before stays as it is.
"""

from __future__ import annotations

from datetime import UTC, datetime

from harness.errors import InfraRetriable
from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of, labels_of
from harness.kube.objects import deleting
from harness.kube.owners import follow_children, owner_key
from harness.kube.reconcile import Controller
from harness.kube.resources import Resource
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_LABEL,
    MACHINE_SET,
    RESET_FINALIZER,
    UID_LABEL,
)
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import follow_claims
from harness.operator.controllers.cluster_children import cluster_object, machine_sets
from harness.operator.controllers.cluster_summary import status_of
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView, owned_by
from harness.operator.controllers.obstacles import obstacle_of
from harness.operator.decide.operations import Nothing


class ClusterDeploymentController:
    """Reconciles ClusterDeployments."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller("clusterdeployment", self.reconcile)
        queue = self.controller.queue
        looks.deployments.subscribe(lambda _, obj: queue.add(key_of(obj)))
        looks.clusters.subscribe(lambda _, obj: queue.add(key_of(obj)))
        follow_children(looks.sets, CLUSTER_DEPLOYMENT, queue)
        follow_claims(looks.machines, queue)
        looks.pods.subscribe(lambda _, pod: queue.add((key_of(pod)[0], labels_of(pod)[CLUSTER_LABEL])))

    def reconcile(self, key: Key) -> float | None:
        """Look at one ClusterDeployment; change one thing."""
        view = self._looks.view(key)
        if view is None:
            self._orphan(key)
            return None
        changed = self._finalizer(view) or (not deleting(view.deployment) and self._children(view))
        if not changed:
            self._status(view)
        return 0.0 if changed else None

    def _finalizer(self, view: DeclaredView) -> bool:
        """Put the finalizer on, or take it off; tell whether that was to do."""
        has = RESET_FINALIZER in (view.deployment["metadata"].get("finalizers") or [])
        if has == self._needed(view, has=has):
            return False
        if has and self._needed(self._now(view), has=True):  # the local copy may be older than an operation
            return False
        meta = view.deployment["metadata"]
        if has and deleting(view.deployment):
            self._cluster.delete(CLUSTER, meta["name"], meta["namespace"])
        others = [one for one in meta.get("finalizers") or [] if one != RESET_FINALIZER]
        patch = {
            "resourceVersion": meta["resourceVersion"],
            "finalizers": others if has else [*others, RESET_FINALIZER],
        }
        self._merge(meta, {"metadata": patch})
        return True

    def _orphan(self, key: Key) -> None:
        """Delete the Cluster of an object that went without its finalizer: somebody has taken it off by hand."""
        found = self._looks.clusters.get(*key)
        if (
            found is None
            or deleting(found)
            or UID_LABEL not in labels_of(found)
            or found["metadata"].get("ownerReferences")
        ):
            return
        if self._cluster.get(CLUSTER_DEPLOYMENT, key[1], key[0]) is None:
            self._cluster.delete(CLUSTER, key[1], key[0])

    def _needed(self, view: DeclaredView, *, has: bool) -> bool:
        """Tell whether the deletion of the object has to wait for a reset."""
        if view.wish is None:
            return has and view.observed.touched
        if view.wish.spec.deletion.machines != "Reset":
            return False
        if deleting(view.deployment):
            return has and not (view.observed.running is None and isinstance(view.verdict, Nothing))
        return has or view.observed.sequence > 0 or not view.mistakes

    def _now(self, view: DeclaredView) -> DeclaredView:
        """Return the same with the Cluster as the API has it."""
        meta = view.deployment["metadata"]
        found = self._cluster.get(CLUSTER, meta["name"], meta["namespace"])
        return self._looks.seen(
            view.deployment, found if found is not None and owned_by(found, view.deployment) else None
        )

    def _children(self, view: DeclaredView) -> bool:
        """Make or correct what the object owns; tell whether anything was to do."""
        if view.wish is None or view.mistakes:
            return False
        wanted = machine_sets(view.deployment, view.wish)
        changed = [
            self._ensure(CLUSTER, self._looks.clusters, view.deployment, cluster_object(view.deployment, view.wish))
        ]
        changed += [self._ensure(MACHINE_SET, self._looks.sets, view.deployment, one) for one in wanted]
        for one in self._surplus(view, wanted):
            changed.append(self._cluster.delete(MACHINE_SET, one["metadata"]["name"], one["metadata"]["namespace"]))
        return any(changed)

    def _ensure(self, kind: Resource, known: Informer, deployment: Json, body: Json) -> bool:
        found = known.get(*key_of(body))
        if found is None:
            if self._cluster.create_if_absent(kind, body):
                return True
            found = self._cluster.get(kind, body["metadata"]["name"], body["metadata"]["namespace"])
        if found is not None and UID_LABEL in labels_of(found) and not owned_by(found, deployment):
            self._cluster.delete(kind, body["metadata"]["name"], body["metadata"]["namespace"])
        if found is None or deleting(found) or not owned_by(found, deployment):
            raise InfraRetriable(
                f"{kind.kind} {body['metadata']['name']} is another object's, or still being deleted",
                hint="what an earlier ClusterDeployment of the name has left is deleted in the background",
            )
        owners = body["metadata"]["ownerReferences"]
        if found.get("spec") == body.get("spec") and (found["metadata"].get("ownerReferences") or []) == owners:
            return False
        meta = {**found["metadata"], "ownerReferences": owners}
        spec = {"spec": body["spec"]} if "spec" in body else {}
        known.observe(self._cluster.replace(kind, {**found, "metadata": meta, **spec}))
        return True

    def _surplus(self, view: DeclaredView, wanted: list[Json]) -> list[Json]:
        """Return the object's MachineSets whose sets are gone from it."""
        names = {one["metadata"]["name"] for one in wanted}
        mine = key_of(view.deployment)
        sets = self._looks.sets.list(mine[0])
        return [
            one
            for one in sets
            if owner_key(one, CLUSTER_DEPLOYMENT) == mine
            and owned_by(one, view.deployment)
            and one["metadata"]["name"] not in names
            and not deleting(one)
        ]

    def _status(self, view: DeclaredView) -> None:
        """Write the status, if it is another one."""
        meta = view.deployment["metadata"]
        sets = [one for one in self._looks.sets.list(meta["namespace"]) if owned_by(one, view.deployment)]
        running = view.observed.running
        pods = self._looks.pods_of(meta["namespace"], running.job or "") if running is not None else []
        status = status_of(view, obstacle_of(pods), sets, datetime.now(UTC))
        if status != view.deployment.get("status"):
            body = {**view.deployment, "status": status}
            self._looks.deployments.observe(self._cluster.replace(CLUSTER_DEPLOYMENT, body, subresource="status"))

    def _merge(self, meta: Json, patch: Json) -> None:
        written = self._cluster.merge(CLUSTER_DEPLOYMENT, meta["name"], patch, meta["namespace"])
        self._looks.deployments.observe(written)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(ClusterDeploymentController(context).controller)
