"""Machines: what they are used for, whether they can be, and what holds them while something on them is to be undone.

One controller derives the status and never waits for a machine. The other (machine_prober.py) logs in to machines.
"""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig
from harness.kube.owners import owner_key
from harness.kube.reconcile import Controller
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, GROUP, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import claimed_by, follow_clusters
from harness.operator.controllers.machine_prober import MachineProber, ssh_probe
from harness.operator.controllers.machine_status import COMPONENT, StatusOfMachines

HOLD = f"{GROUP}/in-use"  # the finalizer of a Machine that its cluster has something on that will be undone


class MachineController:
    """Derives each Machine's status, and holds Machines that are in use."""

    def __init__(self, context: OperatorContext, status: StatusOfMachines) -> None:
        self._machines = status.machines
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._status = status
        self._events = context.events
        self._told: set[str] = set()  # uids of Machines that are gone as soon as they are not held
        self.controller = Controller("machine", self.reconcile)
        self._machines.subscribe(self._changed)
        for kind in (CLUSTER, CLUSTER_DEPLOYMENT):
            follow_clusters(context.informers.of(kind), self._machines, self.controller.queue)
        context.informers.of(MACHINE_SET).subscribe(self._set_changed)

    def _changed(self, _: str, machine: Json) -> None:
        for key in (key_of(machine), *self._status.same_id(machine)):
            self.controller.queue.add(key)

    def _set_changed(self, _: str, machine_set: Json) -> None:
        cluster = owner_key(machine_set, CLUSTER_DEPLOYMENT)
        for machine in claimed_by(self._machines, cluster) if cluster is not None else ():
            self.controller.queue.add(key_of(machine))

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine."""
        machine = self._machines.get(*key)
        if machine is not None and not self._hold(machine):
            self._status.settle(key)
        return None

    def _hold(self, machine: Json) -> bool:
        """Hold a Machine or let go of it, where that has to change; return whether it had to."""
        meta = machine["metadata"]
        finalizers = meta.get("finalizers") or []
        held = HOLD in finalizers
        wanted = self._to_be_held(machine, held=held)
        if wanted and deleting(machine) and meta["uid"] not in self._told:
            self._told.add(meta["uid"])
            user = f"ClusterDeployment {machine['spec']['claim']['cluster']} uses this Machine"
            text = f"{user}; it is deleted once the cluster was reset or has let go of it"
            self._events.warning(machine, "InUse", text, component=COMPONENT)
        if wanted != held:
            names = [*finalizers, HOLD] if wanted else [name for name in finalizers if name != HOLD]
            self._machines.merge(machine, {"metadata": {"finalizers": names}})
        return wanted != held

    def _to_be_held(self, machine: Json, *, held: bool) -> bool:
        """Tell whether only an operation that is still to come can undo what is on a Machine."""
        if not self._status.use(machine).holds or (deleting(machine) and not held):
            return False  # nothing is on it; or it is too late: the API takes no new finalizer
        namespace, cluster = machine["metadata"]["namespace"], machine["spec"]["claim"]["cluster"]
        deployment = self._deployments.get(namespace, cluster)
        if deployment is None:
            return False
        return bool((dig(deployment, "spec", "deletion", "machines") or "Reset") == "Reset")


def start(context: OperatorContext) -> None:
    """Hand both controllers of Machines to the manager."""
    status = StatusOfMachines(context)
    context.run(MachineController(context, status).controller)
    context.run(MachineProber(status, ssh_probe(context)).controller)
