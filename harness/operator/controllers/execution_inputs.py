"""From a decided operation to what its execution is given; pure."""

from __future__ import annotations

from dataclasses import replace

from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.decide.desired import Desired
from harness.operator.decide.duties import DUTIES
from harness.operator.decide.verdicts import Operation
from harness.operator.execute.inputs import Execution, job_name

DIRECT, AUTO = "Direct", "Auto"


def begun(cluster: str, operation: Operation, image: str) -> CurrentOperation:
    """Return an operation as it stands in a Cluster's status before there is a Job of it."""
    return CurrentOperation(
        sequence=operation.sequence,
        operation=operation.name,
        attempt=operation.attempt,
        why=operation.why,
        machines=operation.machines,
        job=job_name(cluster, operation.sequence, operation.name, operation.attempt),
        image=image,
        digest=operation.digest,
        applies=operation.applies,
    )


def execution_of(operation: CurrentOperation, wish: ClusterDeployment, wanted: Desired, access: str) -> Execution:
    """Return what is executed.

    Args:
        access: how machines are reached where the object says Auto.
    """
    chosen = wish.spec.access if wish.spec.access != AUTO else access
    hosts = wanted.hosts if chosen != DIRECT else tuple(replace(host, through="") for host in wanted.hosts)
    return Execution(
        cluster=wanted.cluster,
        namespace=wanted.namespace,
        sequence=operation.sequence,
        attempt=operation.attempt,
        operation=operation.operation,
        entry=next(duty.entry for duty in DUTIES if duty.operation == operation.operation),
        hosts=hosts,
        variables=wanted.variables,
        image=operation.image or "",
        deadline_seconds=wish.spec.jobs.deadline_seconds,
        digest=operation.digest or "",
    )
