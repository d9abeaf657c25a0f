"""Operations: what is decided stands in the Cluster's status first, and becomes a Job in the pass after that.

A Job has one name whoever makes it, so an answer that was lost is "already there" and never a second Job. Nothing is
made while a Job or a living pod of that name is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.errors import VmatrixError
from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.kinds.models import StatusModel
from harness.kube.objects import dig, now
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import CONFIG_MAP, JOB, JOB_NAME_LABEL
from harness.operator.api.cluster import AppliedState, AuthorityState, CurrentOperation, EtcdClientState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import CLUSTER, MACHINE, RESET_FINALIZER
from harness.operator.api.rules import ETCD_ENDPOINTS
from harness.operator.context import OperatorContext
from harness.operator.controllers import executions as end_of
from harness.operator.controllers.claims import leaving
from harness.operator.controllers.cluster_view import (
    ClusterLooks,
    Workable,
    again_for,
    follow_backups,
    follow_clients,
    owned_by,
    still_run,
)
from harness.operator.controllers.executions import cancelled
from harness.operator.controllers.machine_phase import follow_claims, held
from harness.operator.decide.authority import files_of, is_wanted, signs_outside
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Due, Wait
from harness.operator.decide.observed import CLONE, DEPLOY_ETCD, REBUILD, RESET
from harness.operator.decide.operations import DEPLOY, DUTIES, ETCD_DUTIES, due_of, duties_of, plan, withdrawn
from harness.operator.execute.inputs import Execution, job_name, log_name
from harness.operator.execute.objects import make

DIRECT, AUTO = "Direct", "Auto"
BEGINNING = (DEPLOY, DEPLOY_ETCD, CLONE, REBUILD)  # operations that begin a control plane, or an etcd


def begun(cluster: str, operation: CurrentOperation, image: str) -> CurrentOperation:
    """Return a decided operation as it stands in a Cluster's status before there is a Job of it."""
    job = job_name(cluster, operation.sequence, operation.operation, operation.attempt)
    return operation.model_copy(update={"job": job, "image": image})


def execution_of(
    operation: CurrentOperation,
    due: Due,
    desired: Desired,
    access: str,
    authority: AuthorityState | None = None,
    applied: AppliedState | None = None,
    etcd: EtcdClientState | None = None,
) -> Execution:
    """Return what is executed.

    Args:
        due: what is to be done.  access: how machines are reached where the object says Auto.
        authority: the CAs of the cluster, which operations give to machines that begin its control plane, or sign with.
        applied: what was deployed before.  etcd: what the cluster has of an EtcdCluster.
    """
    chosen = desired.spec.access if desired.spec.access != AUTO else access
    hosts = due.hosts if chosen != DIRECT else tuple(replace(host, through="") for host in due.hosts)
    return Execution(
        cluster=desired.wish.metadata.name,
        namespace=desired.wish.metadata.namespace,
        sequence=operation.sequence,
        attempt=operation.attempt,
        operation=operation.operation,
        entry=entry_of(operation.operation, desired),
        product=desired.product,
        hosts=hosts,
        variables=due.variables,
        image=operation.image or "",
        deadline_seconds=desired.spec.jobs.deadline_seconds,
        digest=operation.digest or "",
        snapshot=operation.snapshot,
        authority=files_of(authority) if needs_authority(operation.operation, due, desired.wish, applied) else {},
        etcd_client=client_of(operation.operation, due, etcd),
    )


def client_of(operation: str, due: Due, etcd: EtcdClientState | None) -> str:
    """Return the Secret by which API servers ask an EtcdCluster; "" where they do not, or are not there after it."""
    if operation == RESET or ETCD_ENDPOINTS not in due.variables or etcd is None:
        return ""
    return etcd.secret or ""


def needs_authority(operation: str, due: Due, wish: ClusterDeployment, applied: AppliedState | None) -> bool:
    """Tell whether an executor is given the CAs with their keys: for machines that begin, or to sign itself.

    Args:
        applied: what was deployed before, whose keys may have to go back onto machines.
    """
    if not is_wanted(wish):
        return False
    signs = signs_outside(due.variables) or (applied is not None and signs_outside(applied.variables))
    return operation in BEGINNING or (
        signs and any(duty.signs for duty in (*DUTIES, *ETCD_DUTIES) if duty.operation == operation)
    )


def entry_of(operation: str, desired: Desired) -> str:
    """Return the playbook of an operation: the product's own, which it was found to have, or vmatrix's."""
    theirs = desired.product.playbook(operation) if desired.product is not None else None
    return theirs or next(duty.entry for duty in duties_of(desired) if duty.operation == operation)


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
        follow_backups(looks, queue)
        follow_clients(looks, queue)
        follow_children(looks.jobs, CLUSTER, queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; do one thing."""
        workable = Workable.of(self._looks.view(key))
        if workable is None:
            return None
        running, verdict = workable.observed.running, workable.verdict
        if running is not None and running.started is None and self._looks.jobs.get(key[0], running.job or "") is None:
            return self._make(workable, running)  # `started` says that there was a Job of it
        if isinstance(verdict, Wait) and verdict.approval not in (None, workable.observed.approval):
            self._write(workable.cluster, approval=_json(verdict.approval))
            return 0.0
        pending = workable.observed.approval
        if pending is not None and withdrawn(workable.desired, workable.observed):
            sequence = max(workable.observed.sequence, pending.sequence)  # no other operation gets its number
            self._write(workable.cluster, approval=None, sequence=sequence)
            return 0.0
        steps = [_json(step) for step in plan(workable.desired, workable.observed)]
        if isinstance(verdict, CurrentOperation) and _guarded(workable):
            image = workable.wish.spec.playbooks.image or self._options.executor_image
            state = begun(key[1], verdict, image)
            self._write(workable.cluster, sequence=verdict.sequence, operation=_json(state), plan=steps)
            return 0.0
        if steps != (dig(workable.cluster, "status", "plan") or []):
            self._write(workable.cluster, plan=steps)
        waits = verdict.again_seconds if isinstance(verdict, Wait) else None
        return min((seconds for seconds in (waits, again_for(workable.wish)) if seconds is not None), default=None)

    def _make(self, workable: Workable, running: CurrentOperation) -> float | None:
        """Make the objects of an operation that are not there yet, or give the operation up: nobody wants it any more.

        Raises:
            VmatrixError: the API refuses one of them, which an Event of the ClusterDeployment says as well.
        """
        namespace, job = workable.key[0], running.job or ""
        there = self._cluster.get(JOB, job, namespace)
        if there is not None:  # made before, or left of an earlier cluster of the name and soon deleted
            return None if owned_by(there, workable.cluster) else AGAIN_SECONDS
        due = due_of(running, workable.desired, workable.observed) if workable.wants(running) else None
        if due is None or not self._mine(workable, due):
            for left in (job, log_name(job)):
                self._cluster.delete(CONFIG_MAP, left, namespace)
            self._write(workable.cluster, **(self._stopped(workable) if workable.cancelled else {"operation": None}))
            return AGAIN_SECONDS
        if still_run(self._cluster, namespace, f"{JOB_NAME_LABEL}={job}"):
            return AGAIN_SECONDS
        try:
            authority = workable.observed.authority
            applied = workable.observed.applied
            etcd = workable.observed.etcd_client
            execution = execution_of(running, due, workable.desired, self._options.access, authority, applied, etcd)
            make(self._cluster, execution, workable.cluster)
        except VmatrixError as error:
            text = f"{running.operation} cannot begin: {error.summary}"
            self._events.warning(workable.deployment, "ExecutorNotMade", text, component=COMPONENT)
            raise
        text = f"{running.operation}: {running.why} (Job {job})"
        self._events.normal(workable.deployment, "OperationStarted", text, component=COMPONENT)
        return None

    def _stopped(self, workable: Workable) -> Json:
        """Return the status once an operation was stopped before there was a Job of it."""
        status = workable.cluster["status"]
        entry = end_of.past(status["operation"], cancelled(), None, now(), untouched=True)
        return {"operation": None, **end_of.after(status, entry)}

    def _mine(self, workable: Workable, due: Due) -> bool:
        """Tell whether all machines of an operation are this cluster's as the API has them.

        Nobody else claims what the cluster has something on, so these are not asked for.
        """
        before = {**workable.cluster, "status": {**workable.cluster["status"], "operation": None}}
        uid, known = workable.deployment["metadata"]["uid"], held(before)  # not what is to be begun
        for name in (host.machine for host in due.hosts if host.machine not in known):
            machine = self._cluster.get(MACHINE, name, workable.key[0])
            if machine is not None:
                self._looks.machines.observe(machine)  # what is decided next is decided with this one
            if dig(machine, "spec", "claim", "uid") != uid or leaving(machine):
                return False
        return True

    def _write(self, cluster: Json, **changes: Any) -> None:
        """Change keys of the Cluster's status, unless somebody else has changed it since."""
        status = {**(cluster.get("status") or {}), **changes}
        self._looks.clusters.replace_status(cluster, {key: value for key, value in status.items() if value is not None})


def _guarded(workable: Workable) -> bool:
    """Tell whether a deletion of the object would wait for a reset, where it has to."""
    finalizers = workable.deployment["metadata"].get("finalizers") or []
    return workable.wish.spec.deletion.machines != "Reset" or RESET_FINALIZER in finalizers


def _json(model: StatusModel) -> Json:
    made: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(ClusterInstall(context).controller)
