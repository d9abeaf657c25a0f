"""Makes the Machines of sets that have them made, and deletes those that cannot be used any more."""

from __future__ import annotations

from collections.abc import Collection

from harness.kube.client import Json
from harness.kube.informer import Informer, key_of
from harness.kube.objects import dig
from harness.operator.api.resources import MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import claimed_by
from harness.operator.controllers.machine_choice import Claimant
from harness.operator.controllers.made_machines import hopeless, missing, new_machines

COMPONENT = "machineset-controller"


class MachineMaker:
    """Brings the made Machines of a set to their number."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._sets: Informer = context.informers.of(MACHINE_SET)
        self._machines: Informer = context.informers.of(MACHINE)

    def fill(self, machine_set: Json, held: Collection[str]) -> bool:
        """Delete what cannot be used any more, or make what is missing; tell whether anything was to do.

        The numbers of new Machines are written down first: none is used twice, whenever a manager dies.

        Args:
            held: names of Machines that some cluster has something on.
        """
        namespace, _ = key_of(machine_set)
        claimant = Claimant.of(machine_set)
        machines = claimed_by(self._machines, (namespace, claimant.cluster))
        if useless := hopeless(claimant, machines, held):
            for machine, why in useless:
                self._events.warning(machine, "Replaced", f"{why}: another one takes its place", component=COMPONENT)
                self._cluster.delete(MACHINE, machine["metadata"]["name"], namespace)
            return True
        lacking = missing(claimant, machines)
        if not lacking:
            return False
        last = int(dig(machine_set, "status", "made") or 0)
        self._sets.merge_status(machine_set, {"made": last + lacking})
        for body in new_machines(machine_set, range(last + 1, last + 1 + lacking), machines):
            if self._cluster.create_if_absent(MACHINE, body):
                name = body["metadata"]["name"]
                made = self._cluster.get(MACHINE, name, namespace)
                if made is not None:
                    self._machines.observe(made)
                    text = f"made for set {claimant.wanted['name']} of cluster {claimant.cluster}"
                    self._events.normal(made, "Made", text, component=COMPONENT)
        return True
