"""From an operation in a Cluster's status to its Job, or to the finding that nobody wants it any more.

A Job has one name whoever makes it, so an answer that was lost is "already there" and never a second Job. Nothing is
made while a Job or a living pod of that name is there.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from harness.errors import VmatrixError
from harness.kube.objects import dig, phase
from harness.kube.resources import CONFIG_MAP, JOB, POD
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.resources import MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import Workable, owned_by
from harness.operator.controllers.execution_inputs import execution_of
from harness.operator.decide.operations import next_operation
from harness.operator.execute.inputs import log_name
from harness.operator.execute.objects import make

COMPONENT = "clusterinstall"
ENDED = frozenset({"Succeeded", "Failed"})


class Beginning(Enum):
    """What became of it."""

    MADE = auto()  # the Job is there
    LATER = auto()  # an earlier Job of the name, or a pod of it, is still there
    UNWANTED = auto()  # something else would be decided now


class ExecutionStart:
    """Makes the objects of operations."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._access = context.options.access

    def make(self, found: Workable, running: CurrentOperation) -> Beginning:
        """Make the objects of an operation that are not there yet.

        Raises:
            VmatrixError: the API refuses one of them, which an Event of the ClusterDeployment says as well.
        """
        job = running.job or ""
        there = self._cluster.get(JOB, job, found.namespace)
        if there is not None:  # made before, or left of an earlier cluster of the name and soon deleted
            return Beginning.MADE if owned_by(there, found.cluster) else Beginning.LATER
        if not self._wanted(found, running):
            for left in (job, log_name(job)):
                self._cluster.delete(CONFIG_MAP, left, found.namespace)
            return Beginning.UNWANTED
        pods = self._cluster.list(POD, found.namespace, labels=f"batch.kubernetes.io/job-name={job}").items
        if any(phase(pod) not in ENDED for pod in pods):
            return Beginning.LATER
        try:
            make(self._cluster, execution_of(running, found.wish, found.desired, self._access), found.cluster)
        except VmatrixError as error:
            text = f"{running.operation} cannot begin: {error.summary}"
            self._events.warning(found.deployment, "ExecutorNotMade", text, component=COMPONENT)
            raise
        text = f"{running.operation}: {running.why} (Job {job})"
        self._events.normal(found.deployment, "OperationStarted", text, component=COMPONENT)
        return Beginning.MADE

    def _wanted(self, found: Workable, running: CurrentOperation) -> bool:
        """Tell whether the same would be decided now, and all machines are this cluster's as the API has them."""
        again = next_operation(found.desired, replace(found.observed, running=None))
        same = (running.operation, running.digest)
        if not isinstance(again, CurrentOperation) or (again.operation, again.digest) != same:
            return False
        uid = found.deployment["metadata"]["uid"]
        machines = [self._cluster.get(MACHINE, name, found.namespace) for name in found.desired.machines]
        return all(dig(machine, "spec", "claim", "uid") == uid for machine in machines)
