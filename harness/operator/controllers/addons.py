"""Add-ons: what a guest has to have besides what playbooks deploy, and whether that is still there.

A guest is looked at every half a minute, and after every change of its objects here. Each look brings everything up to
date from what is there, so it does not matter what was missed. An entry of the status stands for an add-on from before
its first object is made until its last one is gone. While an operation runs, guests are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import deleting, dig
from harness.kube.owners import follow
from harness.kube.reconcile import Controller
from harness.operator.api.addons import AddonStatus
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.api.rules import read
from harness.operator.context import OperatorContext
from harness.operator.controllers.addon_looks import AddonLooks
from harness.operator.decide.releases import load_releases

LOOK_SECONDS = 30.0  # pacing: what is deleted or changed by hand is put back within a minute
SOON_SECONDS = 5.0  # pacing: while something comes to be or goes
WORKERS = 4  # a guest that does not answer holds one for some seconds


class Addons:
    """Keeps the add-ons of each cluster."""

    def __init__(self, context: OperatorContext) -> None:
        self._looks = AddonLooks(context)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self.controller = Controller("addons", self.reconcile, workers=WORKERS)
        follow(self._clusters, self.controller.queue)
        follow(self._deployments, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at the add-ons of one cluster."""
        deployment, cluster = self._deployments.get(*key), self._clusters.get(*key)
        if deployment is None or cluster is None or deleting(deployment) or deleting(cluster):
            self._looks.forget(key)
            return None
        wish, mistakes = read(deployment, load_releases().kubernetes, creating=False)
        status = cluster.get("status") or {}
        before = {one["name"]: AddonStatus.model_validate(one) for one in status.get("addons") or []}
        if wish is None or mistakes or wish.spec.paused or status.get("operation"):
            return None
        if not status.get("applied"):
            self._write(cluster, {})
            return None
        fresh = [a.name for a in wish.spec.addons if a.manifests is not None and a.name not in before]
        if fresh:  # from now on they are looked for, whatever happens to this manager
            begun = {name: AddonStatus(name=name, ready=False, reason="Applying") for name in fresh}
            self._write(cluster, {**before, **begun})
            return 0.0
        if not (wish.spec.addons or before):
            return None
        after = self._looks.look(deployment, wish, cluster, before)
        self._write(cluster, after)
        return LOOK_SECONDS if all(one.ready for one in after.values()) else SOON_SECONDS

    def _write(self, cluster: Json, states: Mapping[str, AddonStatus]) -> None:
        """Write what is told, if it is something else."""
        made = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in states.values()]
        if made != (dig(cluster, "status", "addons") or []):
            self._clusters.merge_status(cluster, {"addons": made or None})


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Addons(context).controller)
