"""EtcdRestores: what each waits for, and what became of it. The restore itself is an operation of its cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow
from harness.operator.api.conditions import RESTORED, new, with_conditions
from harness.operator.api.etcd import SUCCEEDED
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView, follow_backups
from harness.operator.decide.due import Situation
from harness.operator.decide.observed import SUCCEEDED as WELL
from harness.operator.decide.operations import given_up
from harness.operator.decide.restores import restore_trouble

COMPONENT = "restores"


def restore_status(restore: Json, view: DeclaredView | None, moment: datetime) -> Json:
    """Return the status that an EtcdRestore should have.

    Args:
        view: of its cluster, None where there is no ClusterDeployment.
    """
    before: Json = restore.get("status") or {}
    if before.get("phase") == SUCCEEDED:
        return before
    uid, cluster = restore["metadata"]["uid"], restore["spec"]["cluster"]
    if view is None or deleting(view.deployment):
        gone = "is being deleted" if view is not None else "does not exist"
        return _said(before, "Pending", "ClusterNotFound", f"ClusterDeployment {cluster} {gone}", moment)
    world = view.observed
    running = world.running
    if running is not None and running.snapshot is not None and running.snapshot.restore == uid:
        known = {**before, "operation": running.sequence, "started": running.started}
        return _said(known, "Running", "Running", f"Job {running.job} restores it", moment)
    past = next((one for one in world.history if one.restore_uid == uid), None)
    if past is not None:
        before = {**before, "operation": past.sequence, "started": past.started, "ended": past.ended}
        if past.outcome == WELL:
            message = f"etcd is as EtcdBackup {restore['spec']['backup']} has it"
            return _said(before, SUCCEEDED, "Restored", message, moment, restored=True)
        if view.desired is not None and given_up(past, view.desired):
            text = "; ".join(filter(None, (f"{past.operation} failed: {past.summary or past.outcome}", past.hint)))
            return _said(before, "Failed", past.reason or "RestoreFailed", text, moment)
    if view.desired is None or world.applied is None:
        return _said(before, "Pending", "NotDeployed", f"cluster {cluster} is not deployed", moment)
    if world.restore is not None and world.restore.uid != uid:
        text = f"EtcdRestore {world.restore.name} comes first: delete it if it is not to be carried out"
        return _said(before, "Waiting", "Waiting", text, moment)
    trouble = restore_trouble(Situation.of(view.desired, world))
    if trouble is not None:
        return _said(before, "Pending", *trouble, moment)
    return _said(before, "Waiting", "Waiting", "it begins once no operation runs, and nothing comes first", moment)


def _said(before: Json, phase: str, reason: str, message: str, moment: datetime, *, restored: bool = False) -> Json:
    words = new(RESTORED, restored, reason, message, moment, None)
    made = {**before, "phase": phase, "conditions": with_conditions(before.get("conditions") or [], words)}
    return {name: value for name, value in made.items() if value is not None}


class Restores:
    """Reconciles the EtcdRestores of one cluster."""

    def __init__(self, context: OperatorContext) -> None:
        self._events = context.events
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller("restores", self.reconcile)
        follow(looks.deployments, self.controller.queue)
        follow(looks.clusters, self.controller.queue)
        follow_backups(looks, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at the EtcdRestores of one cluster."""
        own = [one for one in self._looks.restores.list(key[0]) if one["spec"]["cluster"] == key[1]]
        view = self._looks.view(key) if own else None
        for one in own:
            self._settle(one, view)
        return None

    def _settle(self, restore: Json, view: DeclaredView | None) -> None:
        before = dig(restore, "status", "phase")
        status = restore_status(restore, view, datetime.now(UTC))
        if deleting(restore) or status == (restore.get("status") or {}):
            return
        self._looks.restores.replace_status(restore, status)
        if status["phase"] != before and status["phase"] in (SUCCEEDED, "Failed"):
            say = self._events.normal if status["phase"] == SUCCEEDED else self._events.warning
            say(restore, f"Restore{status['phase']}", status["conditions"][-1]["message"], component=COMPONENT)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Restores(context).controller)
