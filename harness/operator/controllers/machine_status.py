"""Status of a Machine: phase, roles, facts and conditions, derived from probes and its cluster's API, and written.

NodeReady and `node` are another controller's; the list of conditions is written with the version it was read at.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, deleting, dig, without_condition
from harness.machines.programs import ProbedFacts
from harness.operator.api.conditions import EMPTY, NODE_READY, REACHABLE, new, with_conditions
from harness.operator.api.resources import CLUSTER, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_children import set_name
from harness.operator.controllers.guest import GuestView
from harness.operator.controllers.machine_phase import IN_USE, MachineUse, current, in_use, phase_of, unused, use_of
from harness.operator.controllers.ssh import Outcome, ProbeTrouble

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
    one = "delete one of both Machines if they are one machine"
    message = f"Machine {who} has the same machine-id; {one}, else: rm /etc/machine-id; systemd-machine-id-setup"
    return [new(EMPTY, False, DUPLICATE, message, moment, generation)]


def first_of_twins(machine: Json, others: Iterable[Json]) -> Json | None:
    """Return, of the others with a Machine's machine-id, the first one if it comes before the Machine.

    One that is claimed comes before one that is not, then the older one.
    """
    first = min(others, key=_precedence, default=None)
    return first if first is not None and _precedence(first) < _precedence(machine) else None


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
    seen = view.nodes.get(name)
    if seen is None:
        return _as_node(machine, None, new(NODE_READY, False, "NodeMissing", f"there is no node {name}", moment, None))
    ready = condition(seen, "Ready") or {"status": "Unknown"}
    node = {
        "name": name,
        "uid": seen["metadata"]["uid"],
        "version": (dig(seen, "status", "nodeInfo", "kubeletVersion") or "").removeprefix("v"),
        "ready": ready["status"],
        "since": ready.get("lastTransitionTime"),
    }
    says = ready.get("message") or "the kubelet says nothing of itself"
    reason = ready.get("reason") or "NodeStatusUnknown"
    return _as_node(machine, node, new(NODE_READY, ready["status"] == "True", reason, says, moment, None))


def no_node(machine: Json) -> Json:
    """Return `node` and `conditions` of a Machine that is no node, or not any more."""
    if condition(machine, NODE_READY) is None:
        return {"node": None}
    return {"node": None, "conditions": without_condition(machine["status"]["conditions"], NODE_READY)}


def hostname(machine: Json) -> str:
    """Return a Machine's name in the inventory, which is its node's."""
    return str(dig(machine, "spec", "hostname") or machine["metadata"]["name"])


def steady(conditions: Sequence[Json], wanted: Iterable[Json]) -> list[Json]:
    """Return conditions with some set; one whose message only has other numbers (a port, a pid) keeps its message."""
    old = {c["type"]: c for c in conditions}
    return with_conditions(conditions, *(_with_old_message(old.get(new["type"]), new) for new in wanted))


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
