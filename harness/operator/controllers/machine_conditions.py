"""What a probe found out, and whose machine-id is found twice, as conditions of a Machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.conditions import EMPTY, REACHABLE, new, with_conditions
from harness.operator.controllers.machine_phase import current
from harness.operator.controllers.probe import Outcome, ProbeTrouble
from harness.operator.controllers.probe_program import ProbedFacts

NOT_EMPTY, DUPLICATE, BARE = "NotEmpty", "DuplicateMachineID", "Bare"
NUMBER = re.compile(r"[0-9]+")


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
    return [new(REACHABLE, True, "LoggedIn", message, moment, generation), _empty(outcome, moment, generation)]


def _empty(facts: ProbedFacts, moment: datetime, generation: int | None) -> Json:
    if not facts.traces:
        return new(EMPTY, True, BARE, "nothing of a cluster is on the machine", moment, generation)
    message = f"the machine is or was part of a cluster: {', '.join(facts.traces)} is there; reset it"
    return new(EMPTY, False, NOT_EMPTY, f"{message}, or install it again", moment, generation)


def distinct(machine: Json, twin: Json | None, moment: datetime) -> list[Json]:
    """Return Empty, if it has to change because another Machine has, or no longer has, the same machine-id."""
    empty, generation = current(machine, EMPTY), machine["metadata"].get("generation")
    if empty is None or empty["reason"] not in {BARE, DUPLICATE}:
        return []
    if twin is not None:
        return [new(EMPTY, False, DUPLICATE, _same_as(twin), moment, generation)]
    if empty["reason"] == DUPLICATE:
        return [new(EMPTY, True, BARE, "nothing of a cluster is on the machine", moment, generation)]
    return []


def _same_as(twin: Json) -> str:
    meta = twin["metadata"]
    who = f"{meta['namespace']}/{meta['name']} ({dig(twin, 'spec', 'address')})"
    one = "delete one of both Machines if they are one machine"
    return f"Machine {who} has the same machine-id; {one}, else: rm /etc/machine-id; systemd-machine-id-setup"


def first_of_twins(machine: Json, others: Iterable[Json]) -> Json | None:
    """Return, of the others with a Machine's machine-id, the first one if it comes before the Machine.

    One that is claimed comes before one that is not, then the older one.
    """
    first = min(others, key=_precedence, default=None)
    return first if first is not None and _precedence(first) < _precedence(machine) else None


def _precedence(machine: Json) -> tuple[bool, str, str, str]:
    meta = machine["metadata"]
    return not dig(machine, "spec", "claim"), meta.get("creationTimestamp", ""), meta["namespace"], meta["name"]


def steady(conditions: Sequence[Json], wanted: Iterable[Json]) -> list[Json]:
    """Return conditions with some set; one whose message only has other numbers (a port, a pid) keeps its message."""
    old = {c["type"]: c for c in conditions}
    return with_conditions(conditions, *(_with_old_message(old.get(new["type"]), new) for new in wanted))


def _with_old_message(old: Json | None, new: Json) -> Json:
    if old is None or any(old.get(name) != new.get(name) for name in ("status", "reason", "observedGeneration")):
        return new
    if NUMBER.sub("", old["message"]) != NUMBER.sub("", new["message"]):
        return new
    return {**new, "message": old["message"]}


def facts_json(facts: ProbedFacts) -> Json:
    """Return facts as in a Machine's status."""
    return {"os": facts.os, "cpus": facts.cpus, "memoryMiB": facts.memory_mib, "machineID": facts.machine_id}
