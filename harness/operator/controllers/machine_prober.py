"""Logs in to Machines that nobody uses: when they or their specs are new, and from time to time after that."""

from __future__ import annotations

from collections.abc import Callable

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, is_condition
from harness.kube.reconcile import Controller
from harness.kube.resources import SECRET
from harness.operator.api.conditions import EMPTY, REACHABLE
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_phase import current
from harness.operator.controllers.machine_status import StatusOfMachines
from harness.operator.controllers.machine_times import ProbeTimes
from harness.operator.controllers.machine_world import MachineWorld
from harness.operator.controllers.private import PrivateFiles
from harness.operator.controllers.probe import Outcome, ProbeTrouble, TroubleReason, ask
from harness.operator.controllers.probe_key import KeyUnusable, key_of_secret
from harness.operator.controllers.probe_program import ProbedFacts
from harness.operator.controllers.probe_way import infra_api, way_to

WORKERS = 6  # each waits for one machine, half a minute at most
Probe = Callable[[Json], Outcome]


class MachineProber:
    """Probes free Machines."""

    def __init__(
        self, world: MachineWorld, status: StatusOfMachines, probe: Probe, times: ProbeTimes | None = None
    ) -> None:
        self._world = world
        self._status = status
        self._probe = probe
        self._times = times or ProbeTimes()
        self.controller = Controller("machine-probe", self.reconcile, workers=WORKERS)
        world.machines.subscribe(lambda _, machine: self.controller.queue.add(key_of(machine)))

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine; return the seconds until the next look at it."""
        machine = self._world.machines.get(*key)
        if machine is None or deleting(machine) or dig(machine, "spec", "claim"):
            self._times.forget(key)
            return None
        generation = machine["metadata"]["generation"]
        if current(machine, REACHABLE) is not None:
            left = self._times.left(key, generation, fine=is_condition(machine, EMPTY, "True"))
            if left > 0:
                return left
        outcome = self._probe(machine)
        fine = isinstance(outcome, ProbedFacts) and not outcome.traces
        self._times.note(key, generation, fine=fine)
        self._status.settle(key, outcome, machine)
        return self._times.left(key, generation, fine=fine)


def ssh_probe(context: OperatorContext) -> Probe:
    """Return the probe that logs in by SSH with the key of the Machine's Secret."""
    files = PrivateFiles()
    context.on_stop(files.close)
    api = infra_api(context)

    def probe(machine: Json) -> Outcome:
        reference = machine["spec"]["keyRef"]
        name, key = reference["name"], reference.get("key") or "ssh-privatekey"
        try:
            content = key_of_secret(context.cluster.get(SECRET, name, machine["metadata"]["namespace"]), name, key)
        except KeyUnusable as unusable:
            reason = TroubleReason.KEY_MISSING if unusable.missing else TroubleReason.INVALID_KEY
            return ProbeTrouble(reason, unusable.message)
        return ask(way_to(machine, api), content, files, stretch=context.options.stretch)

    return probe
