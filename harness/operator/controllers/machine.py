"""Machines: what they are used for, whether they can be used, and when idle ones are logged in to.

Intervals are not spread by chance: the same machines are looked at in the same order at every start.

One controller derives the status and never waits for a machine. The other (machine_prober.py) logs in to machines.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, deleting, dig, is_condition, without_condition
from harness.kube.reconcile import Controller, follow
from harness.machines.keys import PrivateFiles
from harness.machines.programs import ProbedFacts, facts_of, probe_command
from harness.operator.api.conditions import (
    ANSWERING,
    EMPTY,
    INFRASTRUCTURE_READY,
    NODE_READY,
    REACHABLE,
    new,
    with_conditions,
)
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, DECLARED, GROUP, MACHINE, MACHINE_SET
from harness.operator.api.sets import set_name
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import Declarations, declared_key, resource_of
from harness.operator.controllers.guest import GuestView
from harness.operator.controllers.machine_phase import (
    IN_USE,
    MachineUse,
    claimed_by,
    current,
    follow_clusters,
    in_use,
    made,
    phase_of,
    unused,
    use_of,
)
from harness.operator.controllers.ssh import (
    Found,
    InfraApi,
    KnownKeys,
    MachineLogin,
    Outcome,
    ProbeTrouble,
    TroubleReason,
)

NOT_EMPTY, DUPLICATE, BARE = "NotEmpty", "DuplicateMachineID", "Bare"
NUMBER = re.compile(r"[0-9]+")
API_UNREACHABLE = "ApiUnreachable"  # the reason of a Machine whose cluster does not answer


def found(machine: Json, outcome: Outcome, moment: datetime) -> list[Json]:
    """Return Reachable and Empty after a probe of the Machine's present spec."""
    generation = machine["metadata"].get("generation")
    if isinstance(outcome, ProbeTrouble):
        unknown = "nothing is known of the machine before it can be logged in to"
        return [
            new(REACHABLE, False, outcome.reason, outcome.message, moment, generation),
            new(EMPTY, None, "NotReachable", unknown, moment, generation),
        ]
    message = f"{dig(machine, 'spec', 'user')} can log in and become root"
    reachable = new(REACHABLE, True, "LoggedIn", message, moment, generation)
    if not outcome.traces:
        return [reachable, _bare(moment, generation)]
    traces = ", ".join(outcome.traces)
    message = f"the machine is or was part of a cluster: {traces} is there; reset it, or install it again"
    return [reachable, new(EMPTY, False, NOT_EMPTY, message, moment, generation)]


def distinct(machine: Json, twin: Json | None, moment: datetime) -> list[Json]:
    """Return Empty, if it has to change because another Machine has, or no longer has, the same machine-id."""
    empty, generation = current(machine, EMPTY), machine["metadata"].get("generation")
    if empty is None or empty["reason"] not in {BARE, DUPLICATE}:
        return []
    if twin is None:
        return [_bare(moment, generation)] if empty["reason"] == DUPLICATE else []
    who = f"{twin['metadata']['namespace']}/{twin['metadata']['name']} ({dig(twin, 'spec', 'address')})"
    remedy = "delete one of both Machines if they are one machine"
    message = f"Machine {who} has the same machine-id; {remedy}, else: rm /etc/machine-id; systemd-machine-id-setup"
    return [new(EMPTY, False, DUPLICATE, message, moment, generation)]


def first_of_twins(machine: Json, others: Iterable[Json]) -> Json | None:
    """Return, of the others with a Machine's machine-id, the first one if it comes before the Machine.

    One that is claimed comes before one that is not, then the older one.
    """
    first = min(others, key=_precedence, default=None)
    return first if first is not None and _precedence(first) < _precedence(machine) else None


def outdated_dropped(use: MachineUse, conditions: Sequence[Json]) -> list[Json]:
    """Return conditions without what a probe said before a cluster had anything on the machine.

    It is not empty any more, and whether it answers now is what the inspection says, once it has looked.
    """
    kept = list(conditions)
    if use.holds:
        kept = without_condition(kept, EMPTY)
        kept = (
            without_condition(kept, REACHABLE)
            if any(known_condition["type"] == ANSWERING for known_condition in kept)
            else kept
        )
    return kept


def as_node(machine: Json, view: GuestView, moment: datetime) -> Json:
    """Return `node` and `conditions` of a Machine that is deployed as a node.

    A guest that does not answer says nothing of its nodes: they are Unknown, never not ready.
    """
    if view.trouble:
        last = dig(machine, "status", "node")
        node = {**last, "ready": "Unknown"} if last else None
        why = f"the API of cluster {dig(machine, 'spec', 'claim', 'cluster')} does not answer: {view.trouble}"
        return _as_node(machine, node, new(NODE_READY, None, API_UNREACHABLE, why, moment, None))
    name = hostname(machine)
    node_object = view.nodes.get(name)
    if node_object is None:
        return _as_node(machine, None, new(NODE_READY, False, "NodeMissing", f"there is no node {name}", moment, None))
    ready = condition(node_object, "Ready") or {"status": "Unknown"}
    node = {
        "name": name,
        "uid": node_object["metadata"]["uid"],
        "version": (dig(node_object, "status", "nodeInfo", "kubeletVersion") or "").removeprefix("v"),
        "ready": ready["status"],
        "since": ready.get("lastTransitionTime"),
    }
    says = ready.get("message") or "the kubelet says nothing of itself"
    reason = ready.get("reason") or "NodeStatusUnknown"
    return _as_node(machine, node, new(NODE_READY, ready["status"] == "True", reason, says, moment, None))


def no_node(machine: Json) -> Json:
    """Return `node` and `conditions` of a Machine that is not a node, or not any more."""
    if condition(machine, NODE_READY) is None:
        return {"node": None}
    return {"node": None, "conditions": without_condition(machine["status"]["conditions"], NODE_READY)}


def hostname(machine: Json) -> str:
    """Return a Machine's name in the inventory, which is its node's."""
    return str(dig(machine, "spec", "hostname") or machine["metadata"]["name"])


def steady(conditions: Sequence[Json], expected: Iterable[Json]) -> list[Json]:
    """Return conditions with some set; one whose message only has other numbers (a port, a pid) keeps its message."""
    old = {c["type"]: c for c in conditions}
    return with_conditions(conditions, *(_with_old_message(old.get(new["type"]), new) for new in expected))


def facts_json(facts: ProbedFacts) -> Json:
    """Return facts as in a Machine's status."""
    return {"os": facts.os, "cpus": facts.cpus, "memoryMiB": facts.memory_mib, "machineID": facts.machine_id}


def _bare(moment: datetime, generation: int | None) -> Json:
    return new(EMPTY, True, BARE, "nothing of a cluster is on the machine", moment, generation)


def _precedence(machine: Json) -> tuple[bool, str, str, str]:
    meta = machine["metadata"]
    return not dig(machine, "spec", "claim"), meta.get("creationTimestamp", ""), meta["namespace"], meta["name"]


def _as_node(machine: Json, node: Json | None, ready: Json) -> Json:
    return {"node": node, "conditions": steady(dig(machine, "status", "conditions") or [], [ready])}


def _with_old_message(old: Json | None, new: Json) -> Json:
    if old is None or any(old.get(name) != new.get(name) for name in ("status", "reason", "observedGeneration")):
        return new
    if NUMBER.sub("", old["message"]) != NUMBER.sub("", new["message"]):
        return new
    return {**new, "message": old["message"]}


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
        machine_id, own = _id_of(machine), key_of(machine)
        twins = map(key_of, self.machines.by(_id_of, machine_id)) if machine_id else ()
        return [key for key in twins if key != own]

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
        if conditions := self._held(machine, outdated_dropped(use, status.get("conditions") or []), moment):
            status["conditions"] = conditions
        elif "conditions" in status:
            status["conditions"] = []
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

    def login(machine_object: Json) -> Found | ProbeTrouble:
        machine = DeclaredMachine.model_validate(machine_object)
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
        self._deployments = Declarations(context.informers)
        self._status = status
        self._events = context.events
        self._told: set[str] = set()  # uids of Machines that are gone as soon as they are not held
        self.controller = Controller("machine", self.reconcile)
        self._machines.subscribe(self._changed)
        for kind in (CLUSTER, *DECLARED):
            follow_clusters(context.informers.of(kind), self._machines, self.controller.queue)
        context.informers.of(MACHINE_SET).subscribe(self._set_changed)

    def _changed(self, _: str, machine: Json) -> None:
        for key in (key_of(machine), *self._status.same_id(machine)):
            self.controller.queue.add(key)

    def _set_changed(self, _: str, machine_set: Json) -> None:
        cluster = declared_key(machine_set)
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
        to_hold = self._to_be_held(machine, held=held)
        if to_hold and deleting(machine) and meta["uid"] not in self._told:
            self._told.add(meta["uid"])
            name = machine["spec"]["claim"]["cluster"]
            owner = self._deployments.get(key_of(machine)[0], name)
            user = f"{resource_of(owner or {}).kind} {name} uses this Machine"
            text = f"{user}; it is deleted once the cluster was reset or has let go of it"
            self._events.warning(machine, "InUse", text, component=COMPONENT)
        if to_hold != held:
            names = [*finalizers, HOLD] if to_hold else [name for name in finalizers if name != HOLD]
            self._machines.merge(machine, {"metadata": {"finalizers": names}})
        return to_hold != held

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
