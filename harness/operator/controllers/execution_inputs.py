"""From a decided operation to what its execution is given; pure."""

from __future__ import annotations

from dataclasses import replace

from harness.operator.api.cluster import CurrentOperation
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Due
from harness.operator.decide.operations import DUTIES
from harness.operator.execute.inputs import Execution, job_name

DIRECT, AUTO = "Direct", "Auto"


def begun(cluster: str, operation: CurrentOperation, image: str) -> CurrentOperation:
    """Return a decided operation as it stands in a Cluster's status before there is a Job of it."""
    job = job_name(cluster, operation.sequence, operation.operation, operation.attempt)
    return operation.model_copy(update={"job": job, "image": image})


def execution_of(operation: CurrentOperation, due: Due, wanted: Desired, access: str) -> Execution:
    """Return what is executed.

    Args:
        due: what is to be done.  access: how machines are reached where the object says Auto.
    """
    chosen = wanted.spec.access if wanted.spec.access != AUTO else access
    hosts = due.hosts if chosen != DIRECT else tuple(replace(host, through="") for host in due.hosts)
    return Execution(
        cluster=wanted.wish.metadata.name,
        namespace=wanted.wish.metadata.namespace,
        sequence=operation.sequence,
        attempt=operation.attempt,
        operation=operation.operation,
        entry=entry_of(operation.operation, wanted),
        product=wanted.product,
        hosts=hosts,
        variables=due.variables,
        image=operation.image or "",
        deadline_seconds=wanted.spec.jobs.deadline_seconds,
        digest=operation.digest or "",
        snapshot=operation.snapshot,
    )


def entry_of(operation: str, wanted: Desired) -> str:
    """Return the playbook of an operation: the product's own, which it was found to have, or vmatrix's."""
    theirs = wanted.product.playbook(operation) if wanted.product is not None else None
    return theirs or next(duty.entry for duty in DUTIES if duty.operation == operation)
