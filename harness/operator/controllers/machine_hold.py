"""A Machine that is deleted stays while its cluster has something on it that will be undone."""

from __future__ import annotations

from functools import partial

from harness.kube.client import Json
from harness.kube.objects import deleting, dig
from harness.operator.api.resources import GROUP, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_use import MachineUse
from harness.operator.controllers.machine_world import MachineWorld

HOLD = f"{GROUP}/in-use"
COMPONENT = "machine-controller"


class MachineHold:
    """Puts the finalizer on Machines, and takes it off."""

    def __init__(self, context: OperatorContext, world: MachineWorld) -> None:
        self._cluster = context.cluster
        self._world = world
        self._warn = partial(context.events.warning, component=COMPONENT)
        self._told: set[str] = set()  # uids of Machines that are gone as soon as they are not held

    def settle(self, machine: Json, use: MachineUse) -> bool:
        """Hold a Machine or let go of it, where that has to change; return whether it had to."""
        meta = machine["metadata"]
        finalizers = meta.get("finalizers") or []
        wanted, held = wanted_hold(machine, use, self._world.deployment(machine)), HOLD in finalizers
        if wanted and deleting(machine) and meta["uid"] not in self._told:
            self._told.add(meta["uid"])
            self._warn(machine, "InUse", _why(machine))
        if wanted == held:
            return False
        names = [*finalizers, HOLD] if wanted else [name for name in finalizers if name != HOLD]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": names}}
        written = self._cluster.merge(MACHINE, meta["name"], patch, meta["namespace"])
        if names or not deleting(machine):  # else the answer is the last word of an object that is gone
            self._world.machines.observe(written)
        return True


def wanted_hold(machine: Json, use: MachineUse, deployment: Json | None) -> bool:
    """Tell whether a Machine has to be held: only an operation that is still to come can undo what is on it."""
    if deployment is None or not use.holds:
        return False
    if deleting(machine) and HOLD not in (machine["metadata"].get("finalizers") or []):
        return False  # too late: the API takes no new finalizer
    return bool((dig(deployment, "spec", "deletion", "machines") or "Reset") == "Reset")


def _why(machine: Json) -> str:
    name = dig(machine, "spec", "claim", "cluster")
    return f"ClusterDeployment {name} uses this Machine; it is deleted once the cluster was reset or has let go of it"
