"""Operations: what is decided stands in the Cluster's status first, and becomes a Job in the pass after that.

A Job has one name whoever makes it, so an answer that was lost is "already there" and never a second Job. Nothing is
made while a Job or a living pod of that name is there.
"""

from __future__ import annotations

from typing import Any

from harness.errors import VmatrixError
from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.kinds.models import StatusModel
from harness.kube.objects import dig
from harness.kube.owners import follow, follow_children
from harness.kube.reconcile import Controller
from harness.kube.resources import CONFIG_MAP, JOB
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.resources import CLUSTER, MACHINE, RESET_FINALIZER
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import follow_claims
from harness.operator.controllers.claims import leaving
from harness.operator.controllers.cluster_view import ClusterLooks, Workable, owned_by, still_run
from harness.operator.controllers.execution_inputs import begun, execution_of
from harness.operator.decide.operations import plan
from harness.operator.decide.waits import Wait
from harness.operator.execute.inputs import log_name
from harness.operator.execute.objects import make

COMPONENT = "clusterinstall"
AGAIN_SECONDS = 1.0  # pacing: while pods of a Job that is gone end, which takes them half a minute


class ClusterInstall:
    """Begins operations."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._options = context.options
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller("clusterinstall", self.reconcile)
        queue = self.controller.queue
        follow(looks.deployments, queue)
        follow(looks.clusters, queue)
        follow_claims(looks.machines, queue)
        follow_children(looks.jobs, CLUSTER, queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; do one thing."""
        found = Workable.of(self._looks.view(key))
        if found is None:
            return None
        running, verdict = found.observed.running, found.verdict
        if running is not None and running.started is None and self._looks.jobs.get(key[0], running.job or "") is None:
            return self._make(found, running)  # `started` says that there was a Job of it
        steps = [_json(step) for step in plan(found.desired, found.observed)]
        if isinstance(verdict, CurrentOperation) and _guarded(found):
            image = found.wish.spec.playbooks.image or self._options.executor_image
            state = begun(key[1], verdict, image)
            self._write(found.cluster, sequence=verdict.sequence, operation=_json(state), plan=steps)
            return 0.0
        if steps != (dig(found.cluster, "status", "plan") or []):
            self._write(found.cluster, plan=steps)
        return verdict.again_seconds if isinstance(verdict, Wait) else None

    def _make(self, found: Workable, running: CurrentOperation) -> float | None:
        """Make the objects of an operation that are not there yet, or give the operation up: nobody wants it any more.

        Raises:
            VmatrixError: the API refuses one of them, which an Event of the ClusterDeployment says as well.
        """
        namespace, job = found.key[0], running.job or ""
        there = self._cluster.get(JOB, job, namespace)
        if there is not None:  # made before, or left of an earlier cluster of the name and soon deleted
            return None if owned_by(there, found.cluster) else AGAIN_SECONDS
        if not self._wanted(found, running):
            for left in (job, log_name(job)):
                self._cluster.delete(CONFIG_MAP, left, namespace)
            self._write(found.cluster, operation=None)
            return 0.0
        if still_run(self._cluster, namespace, f"batch.kubernetes.io/job-name={job}"):
            return AGAIN_SECONDS
        try:
            make(self._cluster, execution_of(running, found.desired, self._options.access), found.cluster)
        except VmatrixError as error:
            text = f"{running.operation} cannot begin: {error.summary}"
            self._events.warning(found.deployment, "ExecutorNotMade", text, component=COMPONENT)
            raise
        text = f"{running.operation}: {running.why} (Job {job})"
        self._events.normal(found.deployment, "OperationStarted", text, component=COMPONENT)
        return None

    def _wanted(self, found: Workable, running: CurrentOperation) -> bool:
        """Tell whether the same would be decided now, and all machines are this cluster's as the API has them."""
        if not found.wants(running):
            return False
        uid = found.deployment["metadata"]["uid"]
        machines = [self._cluster.get(MACHINE, name, found.key[0]) for name in found.desired.machines]
        return all(dig(one, "spec", "claim", "uid") == uid and not leaving(one) for one in machines)

    def _write(self, cluster: Json, **changes: Any) -> None:
        """Change keys of the Cluster's status, unless somebody else has changed it since."""
        status = {**(cluster.get("status") or {}), **changes}
        self._looks.clusters.replace_status(cluster, {key: value for key, value in status.items() if value is not None})


def _guarded(found: Workable) -> bool:
    """Tell whether a deletion of the object would wait for a reset, where it has to."""
    finalizers = found.deployment["metadata"].get("finalizers") or []
    return found.wish.spec.deletion.machines != "Reset" or RESET_FINALIZER in finalizers


def _json(model: StatusModel) -> Json:
    made: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(ClusterInstall(context).controller)
