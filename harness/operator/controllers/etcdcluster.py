"""EtcdClusters: their status. All else is done for them as for ClusterDeployments (`declarations`, `ETCD_DUTIES`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import deleting, dig
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.conditions import (
    ACCEPTED,
    AUTHORITY_VALID,
    BACKUP_FRESH,
    BACKUP_PROVEN,
    DEGRADED,
    ETCD_HEALTHY,
    MACHINES_READY,
    PROGRESSING,
    READY,
    SPREAD,
    Said,
    new,
    with_conditions,
)
from harness.operator.api.etcdcluster import EtcdPhase
from harness.operator.api.resources import ETCD_CLUSTER
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.controllers.clusterdeployment import DeclarationController
from harness.operator.controllers.declared_status import (
    authority_valid,
    backup_fresh,
    backup_proven,
    beyond_help,
    is_ready,
    machines_ready,
    progressing,
    ready_at_all,
    spread,
    wanted_machines,
)
from harness.operator.decide.etcd import health
from harness.operator.decide.etcdclusters import ETCD_VERSION, endpoints_of, own_words


def status_of(view: DeclaredView, sets: Sequence[Json], moment: datetime) -> Json:
    """Return the status that an EtcdCluster should have.

    Args:
        sets: its MachineSet.  moment: when conditions that change have changed.
    """
    machines, moving = machines_ready(view, sets), progressing(view)
    stuck, well = beyond_help(view), health(view.observed)
    healthy: Said = (well.healthy, well.reason, well.message)
    degraded = stuck or ((True, healthy[1], healthy[2]) if healthy[0] is False else (False, "AsExpected", ""))
    ready = ready_at_all(view, moving, degraded, (machines, healthy))
    conditions: dict[str, Said] = {
        ACCEPTED: (False, "InvalidSpec", "; ".join(view.mistakes)) if view.mistakes else (True, "Accepted", ""),
        PROGRESSING: moving,
        DEGRADED: degraded,
        MACHINES_READY: machines,
        ETCD_HEALTHY: healthy,
        BACKUP_FRESH: backup_fresh(view, moment),
        BACKUP_PROVEN: backup_proven(view, moment),
        AUTHORITY_VALID: authority_valid(view),
        SPREAD: spread(sets),
        READY: ready,
    }
    generation, applied = view.deployment["metadata"].get("generation"), view.observed.applied
    expected_conditions = [
        new(kind, holds, reason, own_words(message), moment, generation)
        for kind, (holds, reason, message) in conditions.items()
    ]
    status: Json = {
        "observedGeneration": generation,
        "phase": phase_of(view, degraded, ready),
        "version": applied.variables.get(ETCD_VERSION) if applied is not None else None,
        "replicas": len(applied.machines) if applied is not None else 0,
        "members": f"{sum(map(is_ready, view.machines))}/{wanted_machines(view)}",
        "endpoints": endpoints_of(applied) or None,
        "clusters": [
            {"name": client.cluster, "prefix": client.prefix, "user": client.user} for client in view.observed.clients
        ]
        or None,
        "conditions": with_conditions(dig(view.deployment, "status", "conditions") or [], *expected_conditions),
    }
    return {name: value for name, value in status.items() if value is not None}


def phase_of(view: DeclaredView, degraded: Said, ready: Said) -> EtcdPhase:
    """Return where an EtcdCluster is in its life, of what its conditions say."""
    running = view.observed.running or (view.verdict if isinstance(view.verdict, CurrentOperation) else None)
    if deleting(view.deployment):
        return "Deleting"
    if running is not None:
        return "Deploying" if view.observed.applied is None else "Updating"
    if degraded[0]:
        return "Degraded"
    if ready[0]:
        return "Ready"
    return "Pending" if view.observed.applied is None else "Waiting"


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(DeclarationController(context, ETCD_CLUSTER, status_of).controller)
