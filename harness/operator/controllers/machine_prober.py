"""Logs in to Machines that nobody uses: when they or their specs are new, and from time to time after that."""

from __future__ import annotations

from collections.abc import Callable

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import deleting, is_condition
from harness.kube.owners import follow
from harness.kube.reconcile import Controller
from harness.machines.private import PrivateFiles
from harness.machines.probe_program import ProbedFacts, command, facts_of
from harness.operator.api.conditions import EMPTY, INFRASTRUCTURE_READY, REACHABLE
from harness.operator.api.machine import DeclaredMachine
from harness.operator.context import OperatorContext
from harness.operator.controllers.known_keys import KnownKeys
from harness.operator.controllers.machine_phase import MachineUse, current, made, unused
from harness.operator.controllers.machine_status import StatusOfMachines
from harness.operator.controllers.machine_times import ProbeTimes
from harness.operator.controllers.probe import Found, InfraApi, MachineLogin, Outcome, ProbeTrouble, TroubleReason

WORKERS = 6  # each waits for one machine, half a minute at most
Probe = Callable[[Json], Outcome]


class MachineProber:
    """Probes free Machines."""

    def __init__(self, status: StatusOfMachines, probe: Probe) -> None:
        self._status = status
        self._probe = probe
        self._times = ProbeTimes()
        self.controller = Controller("machine-probe", self.reconcile, workers=WORKERS)
        follow(status.machines, self.controller.queue)

    def _may_probe(self, machine: Json) -> bool:
        """Tell whether somebody may look: nobody has the machine, or it was made and is there, and nobody logged in."""
        if made(machine) and not is_condition(machine, INFRASTRUCTURE_READY, "True"):
            return False
        use = self._status.use(machine)
        known = all(is_condition(machine, kind, "True") for kind in (REACHABLE, EMPTY))
        return use is MachineUse.FREE or (unused(machine, use) and not known)

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine; return the seconds until the next look at it."""
        machine = self._status.machines.get(*key)
        if machine is None or deleting(machine) or not self._may_probe(machine):
            self._times.forget(key)
            return None
        generation = machine["metadata"]["generation"]
        if current(machine, REACHABLE) is not None:
            fine = is_condition(machine, EMPTY, "True")
            left = self._times.left(key, generation, fine=fine, coming=made(machine))
            if left > 0:
                return left
        outcome = booted(self._probe(machine))
        fine = isinstance(outcome, ProbedFacts) and not outcome.traces
        self._times.note(key, generation, fine=fine)
        self._status.settle(key, outcome, machine)
        return self._times.left(key, generation, fine=fine, coming=made(machine))


def booted(outcome: Outcome) -> Outcome:
    """Return what was found; that is nothing yet on a machine that cloud-init works on."""
    if not isinstance(outcome, ProbedFacts) or not outcome.boots:
        return outcome
    remedy = "if it does not end: cloud-init status --long, on the machine"
    return ProbeTrouble(TroubleReason.BOOTING, f"cloud-init has not ended yet; {remedy}")


def ssh_probe(context: OperatorContext) -> Probe:
    """Return the probe that logs in by SSH with the key of the Machine's Secret."""
    return ssh_login(context, command(), facts_of)


def ssh_login(
    context: OperatorContext, program: str, read: Callable[[str], Found | None], *, remember: float = 0.0
) -> Callable[[Json], Found | ProbeTrouble]:
    """Return what logs in to a Machine, runs a command there, and reads what it prints.

    Args:
        remember: for how many seconds a key is not read again.
    """
    files, keys = PrivateFiles(), KnownKeys(context.cluster, remember)
    context.on_stop(files.close)

    def login(found: Json) -> Found | ProbeTrouble:
        machine = DeclaredMachine.model_validate(found)
        key = keys.of(machine)
        if isinstance(key, ProbeTrouble):
            return key
        outcome = MachineLogin(machine, InfraApi.of(context), context.options.stretch).run(key, files, program, read)
        keys.judge(machine, outcome)
        return outcome

    return login
