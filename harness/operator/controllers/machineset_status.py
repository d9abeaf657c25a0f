"""What a MachineSet says of itself: how many machines are claimed, deployed and ready, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.conditions import new, with_conditions
from harness.operator.controllers.machine_choice import Claimant, shortage

CLAIMED = "MachinesClaimed"
DEPLOYED = frozenset({"Deployed", "Ready", "NotReady"})


def status_of(
    machine_set: Json, claimant: Claimant, machines: Sequence[Json], cluster: Json | None, moment: datetime
) -> Json:
    """Return a MachineSet's status.

    Args:
        machines: those of the namespace.
        cluster: the Cluster, None where there is none yet.
    """
    spec, generation = machine_set["spec"], machine_set["metadata"].get("generation")
    wanted, own = spec.get("replicas", 1), [m for m in machines if claimant.has(m)]
    phases = [dig(m, "status", "phase") for m in own]
    if len(own) < wanted:
        message = shortage(wanted - len(own), spec["machines"], machines, claimant)
        condition = new(CLAIMED, False, "TooFewMachines", message, moment, generation)
    else:
        condition = new(CLAIMED, True, "Claimed", f"{len(own)} of {wanted} claimed", moment, generation)
    return {
        "observedGeneration": generation,
        "wanted": wanted,
        "claimed": len(own),
        "deployed": sum(phase in DEPLOYED for phase in phases),
        "ready": phases.count("Ready"),
        "executions": executions(cluster),
        "conditions": with_conditions(dig(machine_set, "status", "conditions") or [], condition),
    }


def executions(cluster: Json | None) -> str | None:
    """Return the Job that works on a cluster's machines, or what became of the last one."""
    running = dig(cluster, "status", "operation")
    if running:
        return str(running.get("job") or running["operation"])
    last = next(iter(dig(cluster, "status", "history") or ()), None)
    return f"{last['operation']} {last['sequence']}: {last['outcome']}" if last else None
