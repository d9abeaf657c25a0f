"""MachineSets: claim idle Machines until there are as many as wanted, and say how far they are."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import controller_of, deleting, dig
from harness.kube.reconcile import Controller
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_choice import Claimant, chosen_by, claimable, oldest_first
from harness.operator.controllers.machine_use import held
from harness.operator.controllers.machineset_status import status_of

COMPONENT = "machineset-controller"


class MachineSetController:
    """Claims Machines for each MachineSet, and writes its status."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._sets = context.informers.of(MACHINE_SET)
        self._machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._say = partial(context.events.normal, component=COMPONENT)
        self.controller = Controller("machineset", self.reconcile, workers=1)
        self._sets.subscribe(lambda _, found: self.controller.queue.add(key_of(found)))
        self._machines.subscribe(self._machine_changed)
        for informer in (self._clusters, self._deployments):
            informer.subscribe(self._cluster_changed)

    def _machine_changed(self, _: str, machine: Json) -> None:
        """Look at the set that has claimed a Machine, and at those that wait for one such as this."""
        namespace, _name = key_of(machine)
        for found in self._sets.list(namespace):
            waits = (dig(found, "status", "claimed") or 0) < found["spec"].get("replicas", 1)
            if claimant_of(found).has(machine) or (waits and chosen_by(found["spec"]["machines"], machine)):
                self.controller.queue.add(key_of(found))

    def _cluster_changed(self, _: str, cluster: Json) -> None:
        namespace, name = key_of(cluster)
        for found in self._sets.list(namespace):
            if claimant_of(found).cluster == name:
                self.controller.queue.add(key_of(found))

    def reconcile(self, key: Key) -> float | None:
        """Look at one MachineSet."""
        machine_set = self._sets.get(*key)
        if machine_set is None or deleting(machine_set):
            return None
        claimant = claimant_of(machine_set)
        if self._may_claim(machine_set, claimant):
            self._claim(machine_set, claimant)
        cluster = self._clusters.get(key[0], claimant.cluster)
        machines = oldest_first(self._machines.list(key[0]))
        status = status_of(machine_set, claimant, machines, cluster, datetime.now(UTC))
        patch = {name: value for name, value in status.items() if dig(machine_set, "status", name) != value}
        if patch:
            body = {"metadata": {"resourceVersion": machine_set["metadata"]["resourceVersion"]}, "status": patch}
            self._sets.observe(self._cluster.merge(MACHINE_SET, key[1], body, key[0], subresource="status"))
        return None

    def _may_claim(self, machine_set: Json, claimant: Claimant) -> bool:
        """Tell whether the set's ClusterDeployment is still there, the same, and not paused."""
        deployment = self._deployments.get(machine_set["metadata"]["namespace"], claimant.cluster)
        if deployment is None or deleting(deployment) or dig(deployment, "spec", "paused"):
            return False
        return bool(deployment["metadata"]["uid"] == claimant.uid)

    def _claim(self, machine_set: Json, claimant: Claimant) -> None:
        """Claim Machines, oldest first; one that somebody changed meanwhile is read anew, and the next one is taken."""
        namespace, spec = machine_set["metadata"]["namespace"], machine_set["spec"]
        machines = oldest_first(self._machines.list(namespace))
        missing = spec.get("replicas", 1) - sum(claimant.has(m) for m in machines)
        used = frozenset().union(*map(held, self._clusters.list(namespace)))
        for machine in machines:
            if missing <= 0:
                return
            if chosen_by(spec["machines"], machine) and claimable(machine, used):
                missing -= self._claimed(machine, claimant)

    def _claimed(self, machine: Json, claimant: Claimant) -> bool:
        """Claim a Machine as it was seen; return whether it is the set's now."""
        meta = machine["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": {"claim": claimant.json()}}
        try:
            claimed = self._cluster.merge(MACHINE, meta["name"], patch, meta["namespace"])
        except ApiFailure as failure:
            if not failure.conflict and not failure.not_found:
                raise
            now = self._cluster.get(MACHINE, meta["name"], meta["namespace"])
            if now is not None:
                self._machines.observe(now)
            return claimant.has(now or {})
        self._machines.observe(claimed)
        self._say(claimed, "Claimed", f"claimed by set {claimant.set_name} of cluster {claimant.cluster}")
        return True


def claimant_of(machine_set: Json) -> Claimant:
    """Return whom a MachineSet claims for."""
    owner = controller_of(machine_set) or {}
    return Claimant(owner.get("name", ""), machine_set["spec"]["name"], owner.get("uid", ""))


def start(context: OperatorContext) -> None:
    """Hand the controller of MachineSets to the manager."""
    context.run(MachineSetController(context).controller)
