"""Machines: what they are used for, whether they can be, and what holds them while something on them is to be undone.

One controller derives the status and never waits for a machine. The other (machine_prober.py) logs in to machines.
"""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import dig
from harness.kube.reconcile import Controller
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_hold import MachineHold
from harness.operator.controllers.machine_prober import MachineProber, ssh_probe
from harness.operator.controllers.machine_status import StatusOfMachines
from harness.operator.controllers.machine_use import use_of
from harness.operator.controllers.machine_world import MachineWorld


class MachineController:
    """Derives each Machine's status, and holds Machines that are in use."""

    def __init__(self, context: OperatorContext, world: MachineWorld, status: StatusOfMachines) -> None:
        self._world = world
        self._status = status
        self._hold = MachineHold(context, world)
        self.controller = Controller("machine", self.reconcile)
        world.machines.subscribe(self._changed)
        for kind in (CLUSTER, CLUSTER_DEPLOYMENT):
            context.informers.of(kind).subscribe(self._cluster_changed)
        context.informers.of(MACHINE_SET).subscribe(self._set_changed)

    def _changed(self, _: str, machine: Json) -> None:
        for key in (key_of(machine), *self._world.same_id(machine)):
            self.controller.queue.add(key)

    def _cluster_changed(self, _: str, cluster: Json) -> None:
        namespace, name = key_of(cluster)
        for machine in self._world.machines.list(namespace):
            if dig(machine, "spec", "claim", "cluster") == name:
                self.controller.queue.add(key_of(machine))

    def _set_changed(self, event: str, machine_set: Json) -> None:
        owner = next(iter(machine_set["metadata"].get("ownerReferences") or ()), None)
        if owner is not None:
            namespace, _ = key_of(machine_set)
            self._cluster_changed(event, {"metadata": {"namespace": namespace, "name": owner["name"]}})

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine."""
        machine = self._world.machines.get(*key)
        if machine is None:
            return None
        if not self._hold.settle(machine, use_of(machine, self._world.cluster(machine))):
            self._status.settle(key)
        return None


def start(context: OperatorContext) -> None:
    """Hand both controllers of Machines to the manager."""
    world = MachineWorld(context)
    status = StatusOfMachines(context, world)
    context.run(MachineController(context, world, status).controller)
    context.run(MachineProber(world, status, ssh_probe(context)).controller)
