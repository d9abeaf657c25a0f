"""What a probe, another's machine-id and its cluster's API tell of a Machine, as its conditions; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import condition, dig, without_condition
from harness.machines.probe_program import ProbedFacts
from harness.operator.api.conditions import EMPTY, NODE_READY, REACHABLE, new, with_conditions
from harness.operator.controllers.guest_nodes import GuestView
from harness.operator.controllers.machine_phase import current
from harness.operator.controllers.probe import Outcome, ProbeTrouble

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
