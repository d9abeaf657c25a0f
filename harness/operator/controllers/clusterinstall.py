"""Operations: what is decided stands in the Cluster's status first, and becomes a Job in the pass after that."""

from __future__ import annotations

from typing import Any

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import dig
from harness.kube.owners import follow_children
from harness.kube.reconcile import Controller
from harness.operator.api.base import StatusModel
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.resources import CLUSTER, RESET_FINALIZER
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import follow_claims
from harness.operator.controllers.cluster_view import ClusterLooks, Workable
from harness.operator.controllers.execution_inputs import begun
from harness.operator.controllers.execution_start import Beginning, ExecutionStart
from harness.operator.decide.operations import plan
from harness.operator.decide.waits import Wait

AGAIN_SECONDS = 1.0  # pacing: while pods of a Job that is gone end, which takes them half a minute


class ClusterInstall:
    """Begins operations."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._looks = looks = ClusterLooks(context)
        self._start = ExecutionStart(context)
        self._image = context.options.executor_image
        self.controller = Controller("clusterinstall", self.reconcile)
        queue = self.controller.queue
        looks.deployments.subscribe(lambda _, obj: queue.add(key_of(obj)))
        looks.clusters.subscribe(lambda _, obj: queue.add(key_of(obj)))
        follow_claims(looks.machines, queue)
        follow_children(looks.jobs, CLUSTER, queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; do one thing."""
        found = Workable.of(self._looks.view(key))
        if found is None:
            return None
        running, verdict = found.observed.running, found.verdict
        if running is not None and self._not_made(found, running):
            return self._make(found, running)
        if isinstance(verdict, CurrentOperation) and self._guarded(found):
            state = begun(found.desired.cluster, verdict, found.wish.spec.playbooks.image or self._image)
            self._write(found.cluster, sequence=verdict.sequence, operation=_json(state), plan=self._steps(found))
            return 0.0
        if self._steps(found) != (dig(found.cluster, "status", "plan") or []):
            self._write(found.cluster, plan=self._steps(found))
        return verdict.again_seconds if isinstance(verdict, Wait) else None

    def _guarded(self, found: Workable) -> bool:
        """Tell whether a deletion of the object would wait for a reset, where it has to."""
        return not found.desired.reset or RESET_FINALIZER in (found.deployment["metadata"].get("finalizers") or [])

    def _not_made(self, found: Workable, running: CurrentOperation) -> bool:
        """Tell whether there is no Job of the operation yet; `started` says that there was one."""
        return running.started is None and self._looks.jobs.get(found.namespace, running.job or "") is None

    def _make(self, found: Workable, running: CurrentOperation) -> float | None:
        """Make the operation's Job, or give the operation up."""
        outcome = self._start.make(found, running)
        if outcome is Beginning.UNWANTED:
            self._write(found.cluster, operation=None)
        return {Beginning.MADE: None, Beginning.UNWANTED: 0.0, Beginning.LATER: AGAIN_SECONDS}[outcome]

    def _steps(self, found: Workable) -> list[Json]:
        return [_json(step) for step in plan(found.desired, found.observed)]

    def _write(self, cluster: Json, **changes: Any) -> None:
        """Change keys of the Cluster's status, unless somebody else has changed it since."""
        status = {**(cluster.get("status") or {}), **changes}
        body = {**cluster, "status": {name: value for name, value in status.items() if value is not None}}
        self._looks.clusters.observe(self._cluster.replace(CLUSTER, body, subresource="status"))


def _json(model: StatusModel) -> Json:
    made: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(ClusterInstall(context).controller)
