"""What a Machine is used for now, from its claim and from what its cluster says of itself; nothing is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from harness.kube.client import Json
from harness.kube.informer import labels_of
from harness.kube.objects import controller_of, dig
from harness.operator.api.resources import UID_LABEL

RESET = "reset"
SUCCEEDED = "succeeded"


class MachineUse(StrEnum):
    """What a Machine is used for."""

    FREE = "free"
    CLAIMED = "claimed"  # by a cluster that nothing was done for yet on this machine
    JOINING = "joining"  # an operation makes it a part of its cluster
    DEPLOYED = "deployed"
    LEAVING = "leaving"  # an operation takes it out of its cluster
    BROKEN = "broken"  # an operation failed and may have left anything on it

    @property
    def holds(self) -> bool:
        """Tell whether something is, or may be, on the machine that has to be undone."""
        return self in {MachineUse.JOINING, MachineUse.DEPLOYED, MachineUse.LEAVING, MachineUse.BROKEN}


def use_of(machine: Json, cluster: Json | None) -> MachineUse:
    """Return what a Machine is used for.

    Args:
        cluster: the Cluster that its claim names, None when there is none.
    """
    claim = dig(machine, "spec", "claim")
    if not claim:
        return MachineUse.FREE
    if cluster is None or not _same(claim, cluster):
        return MachineUse.CLAIMED
    name, operation = machine["metadata"]["name"], dig(cluster, "status", "operation")
    applied = name in (dig(cluster, "status", "applied", "machines") or ())
    if operation and name in concerned(operation, cluster, default=(name,)):
        leaving = operation.get("operation") == RESET
        return MachineUse.LEAVING if leaving else MachineUse.DEPLOYED if applied else MachineUse.JOINING
    last = next(iter(dig(cluster, "status", "history") or ()), None)
    if last is not None and last.get("outcome") != SUCCEEDED and (not applied or last.get("operation") == RESET):
        return MachineUse.BROKEN
    return MachineUse.DEPLOYED if applied else MachineUse.CLAIMED


def concerned(operation: Json, cluster: Json, *, default: Sequence[str]) -> Sequence[str]:
    """Return the machines that an operation works on; those of the cluster for one that names none."""
    named: Sequence[str] = operation.get("machines") or dig(operation, "applies", "machines") or ()
    return named or dig(cluster, "status", "applied", "machines") or default


def held(cluster: Json) -> frozenset[str]:
    """Return the names of the Machines that a Cluster has something on, whoever has claimed them."""
    operation = dig(cluster, "status", "operation")
    working = concerned(operation, cluster, default=()) if operation else ()
    return frozenset((*working, *(dig(cluster, "status", "applied", "machines") or ())))


def _same(claim: Json, cluster: Json) -> bool:
    """Tell whether a Cluster is the claim's, and not a later one of the same name."""
    known = {labels_of(cluster).get(UID_LABEL), (controller_of(cluster) or {}).get("uid")} - {None}
    return not known or not claim.get("uid") or claim["uid"] in known
