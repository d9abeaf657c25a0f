"""A Machine's status as it has to be, written where it is not: phase, roles, facts, Reachable and Empty.

NodeReady and `node` are another controller's; the list of conditions is written with the version it was read at.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, without_condition
from harness.machines.probe_program import ProbedFacts
from harness.operator.api.conditions import EMPTY, REACHABLE, new, with_conditions
from harness.operator.api.resources import CLUSTER, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_children import set_name
from harness.operator.controllers.machine_conditions import distinct, facts_json, first_of_twins, found, steady
from harness.operator.controllers.machine_in_use import IN_USE, in_use
from harness.operator.controllers.machine_phase import MachineUse, current, phase_of, unused, use_of
from harness.operator.controllers.probe import Outcome

COMPONENT = "machine-controller"
TRIES = 5  # of a write that meets other writers'


class StatusOfMachines:
    """Writes the status of Machines, one at a time: who writes has seen all that was written before.

    So of two machines with the same machine-id that are found at the same moment, one finds the other.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._sets = context.informers.of(MACHINE_SET)
        self._cluster = context.cluster
        self._events = context.events
        self._writing = threading.Lock()

    def same_id(self, machine: Json) -> list[Key]:
        """Return the other Machines with a Machine's machine-id."""
        wanted, own = _id_of(machine), key_of(machine)
        found = map(key_of, self.machines.by(_id_of, wanted)) if wanted else ()
        return [key for key in found if key != own]

    def use(self, machine: Json) -> MachineUse:
        """Return what a Machine is used for."""
        name = dig(machine, "spec", "claim", "cluster")
        return use_of(machine, self._clusters.get(key_of(machine)[0], name) if name else None)

    def settle(self, key: Key, outcome: Outcome | None = None, probed: Json | None = None) -> None:
        """Bring a Machine's status to what it has to be.

        Args:
            outcome: what a probe just found out, of the spec in `probed`; no longer told where that has changed.
        """
        with self._writing:
            machine = self.machines.get(*key)
            for _ in range(TRIES):
                if machine is None:
                    return
                try:
                    self._write(machine, self._wanted(machine, outcome if _same_spec(machine, probed) else None))
                except ApiFailure as failure:
                    if failure.not_found:
                        return
                    if not failure.conflict:
                        raise
                else:
                    return
                machine = self._cluster.get(MACHINE, key[1], key[0])
                if machine is not None:
                    self.machines.observe(machine)

    def _wanted(self, machine: Json, outcome: Outcome | None) -> Json:
        """Return the keys of the status with what they have to be."""
        moment = datetime.now(UTC)
        use, roles = self.use(machine), self._roles(machine)
        status = dict(machine.get("status") or {})
        if outcome is not None and unused(machine, use):
            status["conditions"] = steady(status.get("conditions") or [], found(machine, outcome, moment))
            if isinstance(outcome, ProbedFacts):
                status["facts"] = facts_json(outcome)
        changed = {**machine, "status": status}
        if unused(machine, use):
            others = (self.machines.get(*key) for key in self.same_id(changed))
            twin = first_of_twins(changed, [other for other in others if other is not None and not deleting(other)])
            status["conditions"] = with_conditions(status.get("conditions") or [], *distinct(changed, twin, moment))
        if conditions := self._held(machine, status.get("conditions") or [], moment):
            status["conditions"] = conditions
        status["phase"], status["roles"] = phase_of(changed, use, roles), roles
        return {name: status[name] for name in ("phase", "roles", "facts", "conditions") if name in status}

    def _held(self, machine: Json, conditions: list[Json], moment: datetime) -> list[Json]:
        """Return conditions that say why a deletion waits: in the words of the webhook, where there is none."""
        claim = dig(machine, "spec", "claim", "cluster")
        cluster = self._clusters.get(key_of(machine)[0], claim) if claim else None
        mistake = in_use(machine, cluster) if deleting(machine) else None
        if mistake is None:
            return without_condition(conditions, IN_USE)
        waits = new(IN_USE, True, "DeletionWaits", mistake.text, moment, machine["metadata"].get("generation"))
        return with_conditions(conditions, waits)

    def _write(self, machine: Json, status: Json) -> None:
        """Write a status where it is another one; events say why a Machine cannot be used."""
        written = self.machines.merge_status(machine, status)
        if written is machine:
            return
        for trouble in (current(written, kind) for kind in (REACHABLE, EMPTY)):
            if trouble is not None and trouble["status"] == "False":
                self._events.warning(written, trouble["reason"], trouble["message"], component=COMPONENT)

    def _roles(self, machine: Json) -> list[str]:
        """Return what a Machine is in its cluster; what it was told last, where its set is gone already."""
        claim = dig(machine, "spec", "claim")
        if not claim:
            return []
        of_set = self._sets.get(machine["metadata"]["namespace"], set_name(claim["cluster"], claim["set"]))
        return list(dig(of_set, "spec", "roles") or dig(machine, "status", "roles") or [])


def _id_of(machine: Json) -> str | None:
    return dig(machine, "status", "facts", "machineID") or None


def _same_spec(machine: Json, probed: Json | None) -> bool:
    return probed is not None and all(
        machine["metadata"].get(name) == probed["metadata"].get(name) for name in ("uid", "generation")
    )
