"""A job's own rights in a namespace that it has just made: it binds the cell's role to itself, and to nobody else.

Rights that hold in all namespaces would let a job read what is not its own. So a job may make namespaces, and bind one
role in them; deploy/rbac has the role, and the policy that keeps the binding to namespaces of the job's project.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.infra.cluster.access import allowed, subject
from harness.infra.cluster.rights import CELL, CELL_ROLE
from harness.kube.client import Cluster
from harness.kube.resources import ROLE_BINDING
from harness.until import Deadline, NotYet, until

GRANTED_IN_A_ROW = 3  # of several API servers, each learns of a binding by itself


def join_namespace(cluster: Cluster, namespace: str, labels: Mapping[str, str], seconds: float) -> None:
    """See to it that we may work in a namespace: nothing to do for who has a cell's rights everywhere.

    Args:
        seconds: until the role is in effect.

    Raises:
        ApiFailure: the API refuses the binding.  TimedOut: the role does not allow what a cell needs.
    """
    first = CELL[0]
    if allowed(cluster, first, first.verbs[0], namespace):
        return
    role = {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": CELL_ROLE}
    subjects = [subject(cluster).reference()]
    body = ROLE_BINDING.manifest(CELL_ROLE, namespace, labels=labels, roleRef=role, subjects=subjects)
    cluster.create_if_absent(ROLE_BINDING, body)
    in_a_row = 0

    def granted() -> bool | NotYet:
        nonlocal in_a_row
        in_a_row = in_a_row + 1 if allowed(cluster, first, first.verbs[0], namespace) else 0
        return in_a_row >= GRANTED_IN_A_ROW or NotYet(f"no right to {first.verbs[0]} {first.plural} there yet")

    until(
        granted,
        deadline=Deadline.after(seconds),
        what=f"the role {CELL_ROLE} to take effect in namespace {namespace}",
        interval=0.05,
    )
