"""What a wish has come to, as both kinds say it: their common conditions, from one view of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import condition, deleting, dig
from harness.operator.api.cluster import CurrentOperation, DeclaredCluster
from harness.operator.api.conditions import SPREAD, Said
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CANCEL_ANNOTATION
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.decide.authority import EXPIRES_SOON, is_wanted
from harness.operator.decide.backups import BackupFreshness, freshness
from harness.operator.decide.drills import BackupProof, proof
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.observed import RESET
from harness.operator.decide.operations import Nothing
from harness.operator.decide.spread import together

# Waits after which something is done although nobody edits the object: who waits for the end of an edit waits on.
BY_ITSELF = frozenset(
    {
        *(WaitReason.RETRY_LATER, WaitReason.OPERATION_RUNNING, WaitReason.BACKUP_FIRST),
        *(WaitReason.WAITING_FOR_MACHINES, WaitReason.WAITING_FOR_NETWORKS, WaitReason.WAITING_FOR_AUTHORITY),
        *(WaitReason.WAITING_FOR_ENDPOINT, WaitReason.WAITING_FOR_ISOLATION, WaitReason.WAITING_FOR_CLAIM),
        WaitReason.WAITING_FOR_ETCD,
    }
)
# Waits that only a person ends, because something went wrong or cannot be.
NO_HELP = frozenset(
    {
        *(WaitReason.FAILED, WaitReason.CANCELLED, WaitReason.NOT_RECOVERABLE, WaitReason.NO_SUCH_PHASE),
        *(WaitReason.RESTORE_NOT_NAMED, WaitReason.RESTORE_NOT_CONFIRMED),
    }
)


def freshness_of(view: DeclaredView, moment: datetime) -> BackupFreshness:
    """Return whether backups are as young as the schedule promises, and until when that holds."""
    if view.wish is None or view.mistakes or view.cluster is None or view.observed.applied is None:
        return BackupFreshness(None, "NotDeployed", "there is no cluster to back up, or its object is not accepted")
    state = DeclaredCluster.model_validate(view.cluster).status.backup_schedule
    return freshness(view.wish.spec.etcd.backup, state, view.observed.backups, moment)


def backup_fresh(view: DeclaredView, moment: datetime) -> Said:
    """Return the condition that says it."""
    backup_freshness = freshness_of(view, moment)
    return backup_freshness.fresh, backup_freshness.reason, backup_freshness.message


def proof_of(view: DeclaredView, moment: datetime) -> BackupProof:
    """Return whether drills have proven a backup as lately as the object asks for, and until when that holds."""
    if view.desired is None or view.mistakes or view.observed.applied is None:
        return BackupProof(None, "NotDeployed", "there is no cluster to back up, or its object is not accepted")
    return proof(view.desired, view.observed.drill, view.observed.backups, moment)


def backup_proven(view: DeclaredView, moment: datetime) -> Said:
    """Return the condition that says it."""
    backup_proof = proof_of(view, moment)
    return backup_proof.proven, backup_proof.reason, backup_proof.message


def authority_valid(view: DeclaredView) -> Said:
    """Return whether the CAs that the cluster is begun with can be used, and for long enough."""
    state = view.observed.authority
    if view.cluster is None or view.wish is None or not is_wanted(view.wish) or state is None:
        return None, "OnMachines", "its CAs are made on its machines, and the operator has no copy of them"
    valid = state.usable and state.reason != EXPIRES_SOON
    return (True if valid else False if state.usable or state.message else None), state.reason, state.message


def spread(sets: Sequence[Json]) -> Said:
    """Return whether the machines of sets that ask for it are spread over failure domains."""
    words: dict[str, bool | None] = {"True": True, "False": False}
    conditions = (
        condition(machine_set, SPREAD) for machine_set in sets if dig(machine_set, "spec", "failureDomains") is not None
    )
    return together(
        (words.get(spread_condition["status"]), spread_condition["reason"], spread_condition.get("message", ""))
        if spread_condition is not None
        else (None, "NotYet", "its Machines are looked at soon")
        for spread_condition in conditions
    )


def progressing(view: DeclaredView) -> Said:
    """Return what is done, or what is waited for."""
    running, verdict = view.observed.running, view.verdict
    if running is not None:
        message = f"{running.operation} runs as Job {running.job}"
        if deleting(view.deployment) and running.operation != RESET:
            message += f"; the deletion waits for its end, or for annotation {CANCEL_ANNOTATION}={running.sequence}"
        if running.obstacle is not None:
            return True, running.obstacle.reason, f"{message}: {running.obstacle.message}"
        return True, _word(running.operation), message
    if isinstance(verdict, CurrentOperation):
        return True, _word(verdict.operation), f"{verdict.operation} begins: {verdict.why}"
    if isinstance(verdict, Wait):
        return verdict.reason in BY_ITSELF, str(verdict.reason), verdict.message
    if deleting(view.deployment):
        return True, "Deleting", "there is nothing to reset, and the object goes"
    return False, "UpToDate", "there is nothing to do"


def machines_ready(view: DeclaredView, sets: Sequence[Json]) -> Said:
    """Return whether as many machines are ready as are wanted, and no others are there."""
    ready, count = sum(map(is_ready, view.machines)), wanted_machines(view)
    if ready >= count and ready == len(view.machines):
        return True, "AllReady", f"{ready} of {count} machines are ready"
    conditions = [c for machine_set in sets for c in dig(machine_set, "status", "conditions") or []]
    lacking = [c["message"] for c in conditions if c["status"] == "False" and c.get("message")]
    others = [f"{m.metadata.name} is {m.status.phase or 'Pending'}" for m in view.machines if not is_ready(m)]
    return False, "WaitingForMachines", "; ".join((f"{ready} of {count} machines are ready", *lacking, *others))


def beyond_help(view: DeclaredView) -> Said | None:
    """Return what only a person ends, None where there is nothing."""
    verdict = view.verdict
    stuck = isinstance(verdict, Wait) and verdict.reason in NO_HELP
    return (True, str(verdict.reason), verdict.message) if isinstance(verdict, Wait) and stuck else None


def ready_at_all(view: DeclaredView, moving: Said, degraded: Said, parts: Sequence[Said]) -> Said:
    """Return whether all is as wished.

    Args:
        moving: what `progressing` says.  parts: conditions that have to hold for it.
    """
    if degraded[0]:
        return False, degraded[1], degraded[2]
    if not isinstance(view.verdict, Nothing) or view.observed.applied is None:
        return False, moving[1], moving[2]
    if deleting(view.deployment):
        return False, "Deleting", "it is being deleted"
    return next((part for part in parts if part[0] is False), (True, "Ready", ""))


def is_ready(machine: DeclaredMachine) -> bool:
    """Tell whether a machine is a ready node, or a member."""
    return machine.status.phase == "Ready"


def wanted_machines(view: DeclaredView) -> int:
    """Return how many machines are wanted."""
    return sum(machine_set.replicas for machine_set in view.wish.spec.machine_sets) if view.wish is not None else 0


def _word(operation: str) -> str:
    """Return an operation's name as a condition's reason: RemoveNode for remove-node."""
    return "".join(part.capitalize() for part in operation.split("-"))
