"""Machines: what they are used for, whether they can be used, and when idle ones are logged in to.

Intervals are not spread by chance: the same machines are looked at in the same order at every start.

One controller derives the status and never waits for a machine. The other (machine_prober.py) logs in to machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, is_condition
from harness.kube.reconcile import Controller, follow, owner_key
from harness.machines.keys import PrivateFiles
from harness.machines.programs import ProbedFacts, facts_of, probe_command
from harness.operator.api.conditions import EMPTY, INFRASTRUCTURE_READY, REACHABLE
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, GROUP, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_phase import MachineUse, claimed_by, current, follow_clusters, made, unused
from harness.operator.controllers.machine_status import COMPONENT, StatusOfMachines
from harness.operator.controllers.ssh import (
    Found,
    InfraApi,
    KnownKeys,
    MachineLogin,
    Outcome,
    ProbeTrouble,
    TroubleReason,
)


@dataclass(frozen=True)
class Pace:
    """Seconds from the first look to the next, at most between two, and at least for each machine that there is."""

    first: float
    longest: float
    each: float


TROUBLE = Pace(5.0, 300.0, 5.0)  # somebody repairs the machine, and looks
COMING = Pace(1.0, 30.0, 0.0)  # a machine that was just made boots, and its cluster waits for it
FINE = Pace(30.0, 900.0, 60.0)  # a look costs two requests: an idle manager makes at most two a minute for all machines


@dataclass(frozen=True)
class Looks:
    """The looks at a Machine so far: at which generation, how many with the same end, and when the last one was."""

    generation: int
    fine: bool
    count: int
    at: float


class ProbeTimes:
    """When each Machine was looked at. Whoever asks about a Machine is the only one who looks at it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: dict[Key, Looks] = {}

    def note(self, key: Key, generation: int, *, fine: bool) -> None:
        """Say that a Machine was just looked at, and whether all was well."""
        last = self._looks.get(key)
        again = last is not None and (last.generation, last.fine) == (generation, fine)
        self._looks[key] = Looks(generation, fine, last.count + 1 if last is not None and again else 1, self._clock())

    def left(self, key: Key, generation: int, *, fine: bool, coming: bool = False) -> float:
        """Return the seconds until the next look at a Machine whose present spec was looked at; 0: now.

        After a restart of the manager, what its object says counts as the first look.

        coming: it was made, and is looked at until all is well.
        """
        if key not in self._looks or self._looks[key].generation != generation:
            self.note(key, generation, fine=fine)
        known = self._looks[key]
        pace = FINE if known.fine else COMING if coming else TROUBLE
        grown = min(pace.first * 2.0 ** min(known.count - 1, 30), pace.longest)
        return max(0.0, known.at + max(grown, len(self._looks) * pace.each) - self._clock())

    def forget(self, key: Key) -> None:
        """Drop a Machine that is gone or in use."""
        self._looks.pop(key, None)


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
    return ssh_login(context, probe_command(), facts_of)


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
