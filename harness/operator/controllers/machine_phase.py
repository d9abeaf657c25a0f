"""A Machine's phase: derived at every look from its use, its conditions and its node, never moved along."""

from __future__ import annotations

from collections.abc import Collection

from harness.kube.client import Json
from harness.kube.objects import condition, is_condition
from harness.operator.api.conditions import EMPTY, NODE_READY, REACHABLE
from harness.operator.controllers.machine_use import MachineUse
from harness.operator.controllers.probe import TroubleReason

OF_USE = {
    MachineUse.CLAIMED: "Claimed",
    MachineUse.JOINING: "Deploying",
    MachineUse.LEAVING: "Removing",
    MachineUse.BROKEN: "Failed",
}
IDLE = "Idle"


def phase_of(machine: Json, use: MachineUse, roles: Collection[str]) -> str:
    """Return the phase of a Machine with its conditions as they are to be written."""
    if use is MachineUse.FREE:
        return _of_free(machine)
    return OF_USE.get(use) or _of_deployed(machine, roles)


def current(machine: Json, kind: str) -> Json | None:
    """Return a condition that was found at the Machine's present spec, None when it has to be found anew."""
    found = condition(machine, kind)
    fresh = found is not None and found.get("observedGeneration") == machine["metadata"].get("generation")
    return found if fresh else None


def has_node(roles: Collection[str]) -> bool:
    """Tell whether a machine with these roles is a node: a machine that only runs etcd is none."""
    return bool({"control-plane", "worker"} & set(roles))


def _of_free(machine: Json) -> str:
    reachable, empty = current(machine, REACHABLE), current(machine, EMPTY)
    if reachable is None or empty is None:
        return "Pending"
    if reachable["status"] != "True":
        return "Unreachable" if reachable["reason"] == TroubleReason.UNREACHABLE else "Failed"
    return IDLE if empty["status"] == "True" else "Failed"


def _of_deployed(machine: Json, roles: Collection[str]) -> str:
    if not has_node(roles) or is_condition(machine, NODE_READY, "True"):
        return "Ready"
    return "NotReady" if is_condition(machine, NODE_READY, "False") else "Deployed"
