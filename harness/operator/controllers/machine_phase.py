"""What a Machine is used for now, and the phase that follows: derived at every look, never remembered or moved along.

The use follows from its claim and from what its cluster says of itself, the phase from its conditions and its node too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of, labels_of
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import condition, controller_of, deleting, dig, is_condition, phase
from harness.kube.reconcile import Followed, Queue
from harness.operator.api.conditions import ANSWERING, EMPTY, INFRASTRUCTURE_READY, NODE_READY, REACHABLE
from harness.operator.api.resources import REPLACE_ANNOTATION, UID_LABEL
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, MachineRole
from harness.operator.controllers.ssh import TroubleReason
from harness.operator.decide.membership import majority
from harness.operator.decide.observed import LEAVE, RESET, SUCCEEDED

IDLE, LOST = "Idle", "Lost"
AWAY = (TroubleReason.UNREACHABLE, TroubleReason.BOOTING)


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
        return self not in {MachineUse.FREE, MachineUse.CLAIMED}


OF_USE = {
    MachineUse.CLAIMED: "Claimed",
    MachineUse.JOINING: "Deploying",
    MachineUse.LEAVING: "Removing",
    MachineUse.BROKEN: "Failed",
}


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
    if operation and name in _concerned(operation, cluster, default=(name,)):
        stays = name in (dig(operation, "applies", "machines") or ())
        leaves = operation.get("operation") in {RESET, *LEAVE} and not stays
        return MachineUse.LEAVING if leaves else MachineUse.DEPLOYED if applied else MachineUse.JOINING
    history: Sequence[Json] = dig(cluster, "status", "history") or ()
    last = next((past for past in history if not past.get("untouched")), {})
    failed = bool(last) and last.get("outcome") != SUCCEEDED
    first = not dig(cluster, "status", "applied") and not dig(cluster, "status", "unsettled")
    if name in _half(cluster) or (failed and (first or (applied and last.get("operation") == RESET))):
        return MachineUse.BROKEN
    return MachineUse.DEPLOYED if applied else MachineUse.CLAIMED


def held(cluster: Json) -> frozenset[str]:
    """Return the names of the Machines that a Cluster has something on, whoever has claimed them."""
    operation = dig(cluster, "status", "operation")
    working = _concerned(operation, cluster, default=()) if operation else ()
    return frozenset((*working, *_half(cluster), *(dig(cluster, "status", "applied", "machines") or ())))


def phase_of(machine: Json, use: MachineUse, roles: Collection[str]) -> str:
    """Return the phase of a Machine with its conditions as they are to be written."""
    if lost(machine):
        return LOST
    if made(machine) and not use.holds and not is_condition(machine, INFRASTRUCTURE_READY, "True"):
        return "Provisioning"
    if use is MachineUse.FREE:
        return _of_free(machine)
    if made(machine) and use is MachineUse.CLAIMED:
        return "Provisioned" if _of_free(machine) == IDLE else "Provisioning"
    if use in OF_USE:
        return OF_USE[use]
    if is_condition(machine, INFRASTRUCTURE_READY, "False"):  # a node's own word of itself is older than that
        return "NotReady"
    if not has_node(roles) or is_condition(machine, NODE_READY, "True"):
        return "Ready"
    return "NotReady" if is_condition(machine, NODE_READY, "False") else "Deployed"


def made(machine: Json) -> bool:
    """Tell whether the operator makes a Machine, and deletes it when its cluster has no use for it."""
    return bool(dig(machine, "spec", "kubevirt"))


def lost(machine: Json) -> bool:
    """Tell whether the infrastructure says that a machine is gone for good."""
    return is_condition(machine, INFRASTRUCTURE_READY, "False", LOST)


def is_down(machine: Json) -> bool:
    """Tell whether a machine is known not to serve: by its node, by its infrastructure, or by logins that fail."""
    gone = is_condition(machine, INFRASTRUCTURE_READY, "False") or is_condition(machine, ANSWERING, "False")
    return gone or phase(machine) in ("NotReady", LOST)


def own_address(machine: Json) -> str:
    """Return the address at which others reach a machine, "" while it has none."""
    return str(dig(machine, "spec", "address") or dig(machine, "status", "infrastructure", "address") or "")


def going(machine: Json) -> str:
    """Return why a Machine does not count for its set any more, "" where it does: another one takes its place."""
    if deleting(machine):
        return "it is being deleted"
    if lost(machine):
        return "it is lost"
    return str(dig(machine, "metadata", "annotations", REPLACE_ANNOTATION) or "")


def unused(machine: Json, use: MachineUse) -> bool:
    """Tell whether nothing can be on a machine, so that one may look: nobody has it, or it was made for its cluster."""
    return use is MachineUse.FREE or (use is MachineUse.CLAIMED and made(machine))


def current(machine: Json, kind: str) -> Json | None:
    """Return a condition that was found at the Machine's present spec, None when it has to be found anew."""
    known_condition = condition(machine, kind)
    fresh = known_condition is not None and known_condition.get("observedGeneration") == machine["metadata"].get(
        "generation"
    )
    return known_condition if fresh else None


def has_node(roles: Collection[str]) -> bool:
    """Tell whether a machine with these roles is a node: a machine that only runs etcd is none."""
    return bool({"control-plane", "worker"} & set(roles))


def _of_free(machine: Json) -> str:
    reachable, empty = current(machine, REACHABLE), current(machine, EMPTY)
    if reachable is None or empty is None:
        return "Pending"
    if reachable["status"] != "True":
        return "Unreachable" if reachable["reason"] in AWAY else "Failed"
    return IDLE if empty["status"] == "True" else "Failed"


def _concerned(operation: Json, cluster: Json, *, default: Sequence[str]) -> Sequence[str]:
    """Return the machines that an operation works on, and of which the cluster consists afterwards."""
    named = (*(operation.get("machines") or ()), *(dig(operation, "applies", "machines") or ()))
    return named or dig(cluster, "status", "applied", "machines") or default


def _half(cluster: Json) -> Sequence[str]:
    """Return the machines that joined or left half."""
    unsettled = dig(cluster, "status", "unsettled") or {}
    return (*(host["machine"] for host in unsettled.get("hosts") or ()), *(unsettled.get("leaving") or ()))


def _same(claim: Json, cluster: Json) -> bool:
    """Tell whether a Cluster is the claim's, and not a later one of the same name."""
    known = {labels_of(cluster).get(UID_LABEL), (controller_of(cluster) or {}).get("uid")} - {None}
    return not known or not claim.get("uid") or claim["uid"] in known


def claimed_by(machines: Informer, cluster: Key) -> list[Json]:
    """Return the Machines whose claim names a cluster."""
    return machines.by(_claim, cluster)


def without_claim(machines: Informer, cluster: Json, uid: str) -> list[Json]:
    """Return the Machines of a cluster whose claim somebody has removed, with the claim that they had.

    The operator gives up a claim only once the cluster has nothing on the machine. One that was made after the last
    operation is another Machine of the name.

    Args:
        cluster: the Cluster.  uid: of its ClusterDeployment.
    """
    namespace, name = key_of(cluster)
    ended = str(next((past.get("ended") or "" for past in dig(cluster, "status", "history") or ()), ""))
    machines_without_claim = []
    for host in dig(cluster, "status", "applied", "hosts") or ():
        machine = machines.get(namespace, host["machine"])
        if machine is None or dig(machine, "spec", "claim") or machine["metadata"].get("creationTimestamp", "") > ended:
            continue
        claim = {"cluster": name, "set": host["set"], "uid": uid}
        machines_without_claim.append({**machine, "spec": {**machine["spec"], "claim": claim}})
    return machines_without_claim


def _claim(machine: Json) -> Key | None:
    """Return the cluster that a Machine's claim names."""
    name = dig(machine, "spec", "claim", "cluster")
    return (machine["metadata"]["namespace"], name) if name else None


def follow_clusters(clusters: Followed, machines: Informer, queue: Queue) -> None:
    """Have every change of what bears a cluster's name put the cluster's Machines into a queue; before the start."""

    def changed(_: str, obj: Json) -> None:
        for machine in claimed_by(machines, key_of(obj)):
            queue.add(key_of(machine))

    clusters.subscribe(changed)


def follow_claims(machines: Informer, queue: Queue) -> None:
    """Have every change of a Machine put its clusters into a queue; call it before the informers start."""
    before: dict[Key, str] = {}

    def changed(kind: str, machine: Json) -> None:
        key, cluster = key_of(machine), str(dig(machine, "spec", "claim", "cluster") or "")
        for name in {before.pop(key, ""), cluster} - {""}:
            queue.add((key[0], name))
        if cluster and kind != "DELETED":
            before[key] = cluster

    machines.subscribe(changed)


def is_gone(cluster: Json | None, machines: Iterable[Json]) -> bool:
    """Tell whether all control planes of a cluster are lost, and the CAs on them.

    Args:
        machines: those of the namespace.
    """
    planes = _left(cluster, machines, CONTROL_PLANE)
    return bool(planes) and not any(planes)


def etcd_is_gone(cluster: Json | None, machines: Iterable[Json]) -> bool:
    """Tell whether etcd of a cluster has lost its majority for good; `machines` as above."""
    members = _left(cluster, machines, ETCD)
    return bool(members) and sum(members) < majority(len(members))


def _left(cluster: Json | None, machines: Iterable[Json], role: MachineRole) -> list[bool]:
    """Return of each machine that was deployed with a role whether it is not lost."""
    hosts = dig(cluster, "status", "applied", "hosts") or ()
    there = {machine["metadata"]["name"]: machine for machine in machines}
    names = [host["machine"] for host in hosts if GROUPS[role] in host.get("groups", ())]
    return [name in there and not lost(there[name]) for name in names]


IN_USE = "InUse"


def in_use(machine: Json, cluster: Json | None) -> SpecMistake | None:
    """Return why a Machine cannot be deleted as it is, and what to do; None when it can.

    Nobody holds a Machine that is lost, or that somebody asked to be replaced.

    Args:
        cluster: the Cluster that its claim names, None when there is none.
    """
    annotations = machine["metadata"].get("annotations") or {}
    lost = is_condition(machine, "InfrastructureReady", "False", "Lost")
    if lost or REPLACE_ANNOTATION in annotations or not use_of(machine, cluster).holds:
        return None
    name, claim = key_of(machine)[1], machine["spec"]["claim"]
    return SpecMistake(
        "metadata.name",
        f"Machine {name} is in use by set {claim['set']} of cluster {claim['cluster']}",
        f"lower the set's replicas, or have it replaced: kubectl annotate vma {name} {REPLACE_ANNOTATION}=WHY",
    )
