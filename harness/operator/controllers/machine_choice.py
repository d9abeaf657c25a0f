"""Which Machines a set may claim, in which order, and why there are too few; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.informer import labels_of
from harness.kube.objects import deleting, dig, is_condition
from harness.operator.api.conditions import EMPTY, REACHABLE
from harness.operator.controllers.machine_phase import IDLE, current

NAMED = 5  # so many names of a kind are told, of more only how many there are


@dataclass(frozen=True)
class Claimant:
    """Who claims: a set of a ClusterDeployment, and the ClusterDeployment's UID."""

    cluster: str
    set_name: str
    uid: str

    def json(self) -> Json:
        """Return the claim as in a Machine's spec."""
        return {"cluster": self.cluster, "set": self.set_name, "uid": self.uid}

    def has(self, machine: Json) -> bool:
        """Tell whether a Machine is claimed by this set."""
        return bool(dig(machine, "spec", "claim") == self.json())


def chosen_by(source: Json, machine: Json) -> bool:
    """Tell whether a Machine is one of those that a set's `machines` names or selects."""
    if source.get("names"):
        return machine["metadata"]["name"] in source["names"]
    wanted = dig(source, "pool", "selector", "matchLabels") or {}
    return bool(wanted.items() <= labels_of(machine).items())


def claimable(machine: Json, held: Collection[str] = ()) -> bool:
    """Tell whether a Machine can be claimed, by its object alone: what it says of an earlier spec does not count.

    Args:
        held: names of Machines that some cluster has something on.
    """
    if dig(machine, "spec", "claim") or deleting(machine) or machine["metadata"]["name"] in held:
        return False
    fresh = all(current(machine, kind) is not None for kind in (REACHABLE, EMPTY))
    whole = is_condition(machine, REACHABLE, "True") and is_condition(machine, EMPTY, "True")
    return fresh and whole and dig(machine, "status", "phase") == IDLE


def oldest_first(machines: Iterable[Json]) -> list[Json]:
    """Return Machines in the order in which they are claimed."""
    return sorted(machines, key=lambda m: (m["metadata"].get("creationTimestamp", ""), m["metadata"]["name"]))


def shortage(missing: int, source: Json, machines: Sequence[Json], claimant: Claimant) -> str:
    """Return how many Machines a set waits for, and why each that there is is none of them.

    Args:
        machines: those of the namespace.
    """
    names = source.get("names") or []
    labels = dig(source, "pool", "selector", "matchLabels") or {}
    others = [m for m in machines if chosen_by(source, m) and not claimant.has(m)]
    of = f" of {', '.join(names)}" if names else f" with labels {_pairs(labels)}" if labels else ""
    words = [f"{len(group)} {'is' if len(group) == 1 else 'are'} {state}" for state, group in _states(others).items()]
    absent = sorted(set(names) - {m["metadata"]["name"] for m in machines})
    words += [f"{', '.join(absent)} not found"] if absent else []
    there = f"{len(others)} {'exists' if len(others) == 1 else 'exist'}" if others or not names else ""
    seen = ", ".join(filter(None, (there, *words)))
    return f"waiting for {missing} more machine{'' if missing == 1 else 's'}{of}: {seen}"


def _states(machines: Iterable[Json]) -> dict[str, list[str]]:
    """Return the names of Machines by the state that they are in, in words."""
    states: dict[str, list[str]] = defaultdict(list)
    for machine in machines:
        states[_state(machine)].append(machine["metadata"]["name"])
    return {f"{state} ({_some(names)})": names for state, names in sorted(states.items())}


def _state(machine: Json) -> str:
    claim = dig(machine, "spec", "claim")
    if claim:
        return f"claimed by cluster {claim['cluster']}"
    return "being deleted" if deleting(machine) else str(dig(machine, "status", "phase") or "Pending")


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _pairs(labels: Json) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
