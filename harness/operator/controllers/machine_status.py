"""A Machine's status as it has to be, written where it is not: phase, roles, facts, Reachable and Empty.

NodeReady and `node` are another controller's; the list of conditions is written with the version it was read at.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key
from harness.kube.objects import dig
from harness.operator.api.conditions import EMPTY, REACHABLE, with_conditions
from harness.operator.api.resources import MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_conditions import distinct, facts_json, found, steady
from harness.operator.controllers.machine_phase import current, phase_of
from harness.operator.controllers.machine_use import MachineUse, use_of
from harness.operator.controllers.machine_world import MachineWorld
from harness.operator.controllers.probe import Outcome
from harness.operator.controllers.probe_program import ProbedFacts

COMPONENT = "machine-controller"
TRIES = 5  # of a write that meets other writers'


class StatusOfMachines:
    """Writes the status of Machines, one at a time: who writes has seen all that was written before.

    So of two machines with the same machine-id that are found at the same moment, one finds the other.
    """

    def __init__(self, context: OperatorContext, world: MachineWorld) -> None:
        self._cluster = context.cluster
        self._warn = partial(context.events.warning, component=COMPONENT)
        self._world = world
        self._writing = threading.Lock()

    def settle(self, key: Key, outcome: Outcome | None = None, probed: Json | None = None) -> Json | None:
        """Bring a Machine's status to what it has to be; return the Machine, None if it is gone.

        Args:
            outcome: what a probe just found out, of the spec in `probed`; no longer told where that has changed.
        """
        with self._writing:
            machine = self._world.machines.get(*key)
            for _ in range(TRIES):
                if machine is None:
                    return None
                status = self.wanted(machine, outcome if _same_spec(machine, probed) else None)
                patch = {name: value for name, value in status.items() if dig(machine, "status", name) != value}
                if not patch:
                    return machine
                try:
                    return self._write(machine, patch)
                except ApiFailure as failure:
                    if failure.not_found:
                        return None
                    if not failure.conflict:
                        raise
                machine = self._cluster.get(MACHINE, key[1], key[0])
                if machine is not None:
                    self._world.machines.observe(machine)
            return machine

    def wanted(self, machine: Json, outcome: Outcome | None) -> Json:
        """Return the keys of the status with what they have to be."""
        moment = datetime.now(UTC)
        use, roles = use_of(machine, self._world.cluster(machine)), self._world.roles(machine)
        status = dict(machine.get("status") or {})
        if outcome is not None and use is MachineUse.FREE:
            status["conditions"] = steady(status.get("conditions") or [], found(machine, outcome, moment))
            if isinstance(outcome, ProbedFacts):
                status["facts"] = facts_json(outcome)
        changed = {**machine, "status": status}
        if use is MachineUse.FREE:
            other = distinct(changed, self._world.twin(changed), moment)
            status["conditions"] = with_conditions(status.get("conditions") or [], *other)
        status["phase"], status["roles"] = phase_of(changed, use, roles), roles
        return {name: status[name] for name in ("phase", "roles", "facts", "conditions") if name in status}

    def _write(self, machine: Json, patch: Json) -> Json:
        meta = machine["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": patch}
        written = self._cluster.merge(MACHINE, meta["name"], body, meta["namespace"], subresource="status")
        self._world.machines.observe(written)
        self._world.index("MODIFIED", written)
        if dig(machine, "status", "phase") != patch.get("phase", ""):
            self._tell(written)
        return written

    def _tell(self, machine: Json) -> None:
        """Write an event about a Machine that cannot be used."""
        for kind in (REACHABLE, EMPTY):
            trouble = current(machine, kind)
            if trouble is not None and trouble["status"] == "False":
                self._warn(machine, trouble["reason"], trouble["message"])


def _same_spec(machine: Json, probed: Json | None) -> bool:
    return probed is not None and all(
        machine["metadata"].get(name) == probed["metadata"].get(name) for name in ("uid", "generation")
    )
