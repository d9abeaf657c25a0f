"""The status of a ClusterDeployment: what a person wants to know, from everything that is known; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import deleting, dig
from harness.operator.api.applied import AppliedHost
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.conditions import (
    ACCEPTED,
    ADDONS_READY,
    CONTROL_PLANE_READY,
    DEGRADED,
    MACHINES_READY,
    NODE_READY,
    PROGRESSING,
    READY,
    new,
    with_conditions,
)
from harness.operator.api.load_balancer import service_names
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CANCEL_ANNOTATION
from harness.operator.api.sets import CONTROL_PLANE, GROUPS
from harness.operator.controllers.addon_summary import addons_ready
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.controllers.machine_conditions import API_UNREACHABLE
from harness.operator.decide.observed import RESET
from harness.operator.decide.operations import Nothing
from harness.operator.decide.unsettled import RECOVER
from harness.operator.decide.waits import Wait, WaitReason

Said = tuple[bool | None, str, str]  # a condition's status, reason and message
BY_ITSELF = frozenset({WaitReason.RETRY_LATER})  # a wait after which something is done
# Waits that only a person ends, because something went wrong or cannot be.
NO_HELP = frozenset(
    {
        *(WaitReason.FAILED, WaitReason.CANCELLED, WaitReason.NOT_RECOVERABLE, WaitReason.NO_SUCH_PHASE),
        *(WaitReason.RESTORE_NOT_NAMED, WaitReason.RESTORE_NOT_CONFIRMED),
    }
)
API_PORT = 6443


def status_of(view: DeclaredView, sets: Sequence[Json], moment: datetime) -> Json:
    """Return the status that a ClusterDeployment should have.

    Args:
        sets: its MachineSets.  moment: when conditions that change have changed.
    """
    machines, planes, progressing = _machines(view, sets), _control_planes(view), _progressing(view)
    addons = addons_ready(view)
    said = {
        ACCEPTED: (False, "InvalidSpec", "; ".join(view.mistakes)) if view.mistakes else (True, "Accepted", ""),
        PROGRESSING: progressing,
        DEGRADED: _degraded(view),
        MACHINES_READY: machines,
        CONTROL_PLANE_READY: planes,
        ADDONS_READY: addons,
        READY: _ready_at_all(view, progressing, (planes, machines, addons)),
    }
    generation, applied = view.deployment["metadata"].get("generation"), view.observed.applied
    wanted = [new(kind, *words, moment, generation) for kind, words in said.items()]
    status: Json = {
        "observedGeneration": generation,
        "version": applied.version if applied is not None else None,
        "machines": f"{sum(map(_ready, view.machines))}/{_wanted(view)}",
        "endpoint": _endpoint(view) if applied is not None else None,
        "confirmation": view.verdict.confirmation if isinstance(view.verdict, Wait) else None,
        "conditions": with_conditions(dig(view.deployment, "status", "conditions") or [], *wanted),
    }
    return {name: value for name, value in status.items() if value is not None}


def _progressing(view: DeclaredView) -> Said:
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
    return False, "UpToDate", "there is nothing to do"


def _degraded(view: DeclaredView) -> Said:
    verdict = view.verdict
    if isinstance(verdict, Wait) and verdict.reason in NO_HELP:
        return True, str(verdict.reason), verdict.message
    silent = None if _recovers(view) else _silent_api(view)
    return (True, API_UNREACHABLE, silent) if silent is not None else (False, "AsExpected", "")


def _recovers(view: DeclaredView) -> bool:
    """Tell whether what a lost quorum silences is being mended: while it is, the silence is no news."""
    running, verdict = view.observed.running, view.verdict
    if running is not None:
        return running.operation == RECOVER
    return isinstance(verdict, CurrentOperation) and verdict.operation == RECOVER


def _silent_api(view: DeclaredView) -> str | None:
    """Return why the API of a deployed cluster does not answer, also while an operation runs; None where it answers."""
    deployed = {host.machine for host in view.observed.applied.hosts} if view.observed.applied is not None else set()
    nodes = [
        one
        for machine in view.machines
        for one in machine.status.conditions
        if one.type == NODE_READY and machine.metadata.name in deployed
    ]
    return nodes[0].message if nodes and all(one.reason == API_UNREACHABLE for one in nodes) else None


def _machines(view: DeclaredView, sets: Sequence[Json]) -> Said:
    ready, wanted = sum(map(_ready, view.machines)), _wanted(view)
    if ready >= wanted and ready == len(view.machines):
        return True, "AllReady", f"{ready} of {wanted} machines are ready"
    found = [c for one in sets for c in dig(one, "status", "conditions") or []]
    lacking = [c["message"] for c in found if c["status"] == "False" and c.get("message")]
    others = [f"{m.metadata.name} is {m.status.phase or 'Pending'}" for m in view.machines if not _ready(m)]
    return False, "WaitingForMachines", "; ".join((f"{ready} of {wanted} machines are ready", *lacking, *others))


def _control_planes(view: DeclaredView) -> Said:
    if view.observed.applied is None:
        return False, "NotDeployed", "there is no cluster yet"
    ready, planes = {machine.metadata.name for machine in view.machines if _ready(machine)}, _planes(view)
    late = [host.machine for host in planes if host.machine not in ready]
    if late or not planes:
        return False, "NotReady", f"not ready: {', '.join(late) or 'there is no control plane'}"
    return True, "AllReady", ""


def _ready_at_all(view: DeclaredView, progressing: Said, parts: Sequence[Said]) -> Said:
    if not isinstance(view.verdict, Nothing) or view.observed.applied is None:
        return False, progressing[1], progressing[2]
    if deleting(view.deployment):
        return False, "Deleting", "it is being deleted"
    return next((said for said in parts if said[0] is False), (True, "Ready", ""))


def _ready(machine: DeclaredMachine) -> bool:
    return machine.status.phase == "Ready"


def _wanted(view: DeclaredView) -> int:
    return sum(one.replicas for one in view.wish.spec.machine_sets) if view.wish is not None else 0


def _planes(view: DeclaredView) -> list[AppliedHost]:
    """Return the control planes that are deployed; not those that are still to join."""
    hosts = view.observed.applied.hosts if view.observed.applied is not None else ()
    return [host for host in hosts if GROUPS[CONTROL_PLANE] in host.groups]


def _endpoint(view: DeclaredView) -> str | None:
    """Return the URL of the Service, or else of the first control plane's API server: nothing is in front of all."""
    if view.wish is not None and view.wish.spec.load_balancer.type == "Service":
        names = service_names(view.wish.metadata.name, view.wish.metadata.namespace)
        return f"https://{names[-1]}:{API_PORT}"
    first = next((host.address for host in _planes(view)), None)
    address = f"[{first}]" if first is not None and ":" in first else first
    return f"https://{address}:{API_PORT}" if address else None


def _word(operation: str) -> str:
    """Return an operation's name as a condition's reason: RemoveNode for remove-node."""
    return "".join(part.capitalize() for part in operation.split("-"))
