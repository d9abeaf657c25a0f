"""EtcdRestores: what each waits for, and what became of it. The restore itself is an operation of its cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow
from harness.operator.api.conditions import FAILED, RESTORED, new, with_conditions
from harness.operator.api.etcd import CLONE, SUCCEEDED
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView, cluster_gone, follow_backups
from harness.operator.decide.clones import clone_answer
from harness.operator.decide.due import Situation, Wait, given_up
from harness.operator.decide.observed import SUCCEEDED as WELL
from harness.operator.decide.restores import GIVES_UP, OPERATIONS, RestoreAnswer, restore_answer

COMPONENT = "restores"
ENDED = (SUCCEEDED, FAILED)


def restore_status(restore: Json, view: DeclaredView | None, moment: datetime) -> Json:
    """Return the status that an EtcdRestore should have.

    Args:
        view: of its cluster, None where nobody has declared one.
    """
    before: Json = restore.get("status") or {}
    if before.get("phase") in ENDED:
        return before
    uid, cluster = restore["metadata"]["uid"], restore["spec"]["cluster"]
    source = restore["spec"].get("from")
    if view is None or deleting(view.deployment):
        return _said(before, "Pending", "ClusterNotFound", _no_cluster(cluster, view, source), moment)
    world = view.observed
    running = world.running
    if running is not None and running.snapshot is not None and running.snapshot.restore == uid:
        before = {**_facts(_answer(view, uid)), **before}
        known = {**_way(before, running.operation), "operation": running.sequence, "started": running.started}
        return _said(known, "Running", "Running", f"Job {running.job} restores it", moment)
    past = next((operation for operation in world.history if operation.restore_uid == uid), None)
    if past is not None:
        times = {"started": past.started, "ended": past.ended}
        before = {**_way(before, past.operation), "operation": past.sequence, **times}
        if past.outcome == WELL:
            what = f"the cluster is a clone of {source}" if source else "etcd is"
            message = f"{what} as EtcdBackup {restore['spec']['backup']} has it{_loss(before)}"
            return _said(before, SUCCEEDED, "Restored", message, moment)
        if view.desired is not None and given_up(past, view.desired):
            text = "; ".join(filter(None, (f"{past.operation} failed: {past.summary or past.outcome}", past.hint)))
            text += "; make another EtcdRestore to try again"
            return _said(before, FAILED, past.reason or "RestoreFailed", text, moment)
    if view.desired is None or (world.applied is None and not source):
        return _said(before, "Pending", "NotDeployed", f"cluster {cluster} is not deployed", moment)
    if world.restore is not None and world.restore.uid != uid:
        text = f"EtcdRestore {world.restore.name} comes first: delete it if it is not to be carried out"
        return _said(before, "Waiting", "Waiting", text, moment)
    answer = _answer(view, uid)
    if answer is None:
        return before  # it is over, which the copy of its cluster does not show yet
    waits = isinstance(view.verdict, Wait) and answer.begins
    message = f"it waits: {view.verdict.message}" if isinstance(view.verdict, Wait) and waits else answer.message
    return _said({**before, **_facts(answer)}, answer.phase, answer.reason, message, moment)


def _no_cluster(cluster: str, view: DeclaredView | None, source: str | None) -> str:
    begins = f", which begins as a clone of {source}" if source else ""
    return f"{cluster_gone(cluster, view)}: delete this EtcdRestore, or create the cluster{begins}"


def _answer(view: DeclaredView, uid: str) -> RestoreAnswer | None:
    """Return what an EtcdRestore does now; None where another one comes first, or it is over."""
    first = view.observed.restore
    if view.desired is None or first is None or first.uid != uid:
        return None
    situation = Situation.of(view.desired, view.observed)
    return clone_answer(situation) if first.source else restore_answer(situation)


def _facts(answer: RestoreAnswer | None) -> Json:
    """Return what a status says of the way, of what is lost and of whose data are replaced; None: not known."""
    if answer is None:
        return {}
    return {"way": answer.way, "lostSince": answer.taken or None, "machines": list(answer.machines) or None}


def _way(status: Json, operation: str) -> Json:
    """Return a status with the way that an operation is, also of one that began before anybody looked."""
    return {**status, "way": next(way for way, name in OPERATIONS.items() if name == operation)}


def _loss(status: Json) -> str:
    """Return what was lost by a restore, from what was known when it began."""
    since, machines = status.get("lostSince"), ", ".join(status.get("machines") or ())
    lost = f", and what was written since {since} is lost" if since and status.get("way") != CLONE else ""
    return f"{lost}; without {machines}" if status.get("way") in GIVES_UP and machines else lost


def _said(before: Json, phase: str, reason: str, message: str, moment: datetime) -> Json:
    words = [new(RESTORED, phase == SUCCEEDED, reason, message, moment, None)]
    if phase == FAILED:
        words.append(new(FAILED, True, reason, message, moment, None))
    made = {**before, "phase": phase, "conditions": with_conditions(before.get("conditions") or [], *words)}
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
        own = [restore for restore in self._looks.restores.list(key[0]) if restore["spec"]["cluster"] == key[1]]
        view = self._looks.view(key) if own else None
        for restore in own:
            self._settle(restore, view)
        return None

    def _settle(self, restore: Json, view: DeclaredView | None) -> None:
        before = dig(restore, "status", "phase")
        status = restore_status(restore, view, datetime.now(UTC))
        if deleting(restore) or status == (restore.get("status") or {}):
            return
        self._looks.restores.replace_status(restore, status)
        if status["phase"] != before and status["phase"] in ENDED:
            say = self._events.normal if status["phase"] == SUCCEEDED else self._events.warning
            say(restore, f"Restore{status['phase']}", status["conditions"][0]["message"], component=COMPONENT)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Restores(context).controller)
