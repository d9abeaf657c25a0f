"""Which Machines a set may claim, in which order, and why there are too few; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.informer import Key, labels_of
from harness.kube.objects import controller_of, deleting, dig, is_condition
from harness.operator.api.conditions import EMPTY, REACHABLE
from harness.operator.api.made import ZONE_LABEL
from harness.operator.controllers.machine_conditions import NOT_EMPTY
from harness.operator.controllers.machine_phase import IDLE, current, going

NAMED = 5  # so many names of a kind are told, of more only how many there are


@dataclass(frozen=True)
class Claimant:
    """Who claims: a set of a ClusterDeployment as its MachineSet has it, and the ClusterDeployment's name and UID."""

    wanted: Json
    cluster: str
    uid: str

    @staticmethod
    def of(machine_set: Json) -> Claimant:
        """Return whom a MachineSet claims for."""
        owner = controller_of(machine_set) or {}
        return Claimant(machine_set["spec"], owner.get("name", ""), owner.get("uid", ""))

    @property
    def replicas(self) -> int:
        """Return how many Machines the set wants."""
        return int(self.wanted.get("replicas", 1))

    @property
    def makes(self) -> bool:
        """Tell whether the set has its Machines made."""
        return bool(dig(self.wanted, "machines", "kubevirt"))

    def json(self) -> Json:
        """Return the claim as in a Machine's spec."""
        return {"cluster": self.cluster, "set": self.wanted["name"], "uid": self.uid}

    def has(self, machine: Json) -> bool:
        """Tell whether a Machine is claimed by this set."""
        return bool(dig(machine, "spec", "claim") == self.json())

    def chooses(self, machine: Json) -> bool:
        """Tell whether a Machine is one of those that the set names or selects."""
        if self.makes or controller_of(machine) is not None:  # a set has it made for itself
            return False
        if names := dig(self.wanted, "machines", "names"):
            return machine["metadata"]["name"] in names
        labels = dig(self.wanted, "machines", "pool", "selector", "matchLabels") or {}
        return bool(labels.items() <= labels_of(machine).items())


def lacks(machine_set: Json) -> bool:
    """Tell whether a set wanted more Machines when it was looked at last."""
    return bool((dig(machine_set, "status", "claimed") or 0) < Claimant.of(machine_set).replicas)


def where_lacks(machine_set: Json) -> str | None:
    """Return the namespace of a set that lacks Machines, None of one that does not; to find those that do."""
    return machine_set["metadata"]["namespace"] if lacks(machine_set) else None


def cluster_of(machine_set: Json) -> Key:
    """Return the ClusterDeployment that a set is derived from; to find all sets of one."""
    return machine_set["metadata"]["namespace"], Claimant.of(machine_set).cluster


def claimable(machine: Json, held: Collection[str] = (), *, adopting: bool = False) -> bool:
    """Tell whether a Machine can be claimed, by its object alone: what it says of an earlier spec does not count.

    Args:
        held: names of Machines that some cluster has something on.
        adopting: by a cluster that is to be taken over, of which something is on it already.
    """
    if dig(machine, "spec", "claim") or going(machine) or machine["metadata"]["name"] in held:
        return False
    if adopting:
        reachable, empty = current(machine, REACHABLE) or {}, current(machine, EMPTY) or {}
        return reachable.get("status") == "True" and empty.get("reason") == NOT_EMPTY
    fresh = all(current(machine, kind) is not None for kind in (REACHABLE, EMPTY))
    whole = is_condition(machine, REACHABLE, "True") and is_condition(machine, EMPTY, "True")
    return fresh and whole and dig(machine, "status", "phase") == IDLE


def oldest_first(machines: Iterable[Json]) -> list[Json]:
    """Return Machines in the order in which they are claimed."""
    return sorted(machines, key=lambda m: (m["metadata"].get("creationTimestamp", ""), m["metadata"]["name"]))


def spread(free: Iterable[Json], own: Iterable[Json]) -> Iterator[Json]:
    """Yield Machines, each from a zone that the set has fewest of, oldest first within a zone.

    Args:
        free: that may be claimed.  own: that the set has.
    """
    zones, left = Counter(map(zone_of, own)), oldest_first(free)
    while left:
        chosen = min(left, key=lambda machine: zones[zone_of(machine)])
        left.remove(chosen)
        zones[zone_of(chosen)] += 1
        yield chosen


def zone_of(machine: Json) -> str:
    """Return the zone that a Machine is in, "" where nobody has said so."""
    return labels_of(machine).get(ZONE_LABEL, "")


def shortage(
    missing: int, claimant: Claimant, machines: Sequence[Json], left_to: Callable[[Json], str] | None = None
) -> str:
    """Return how many Machines a set waits for, and why each that there is is none of them.

    Args:
        machines: those of the namespace.
        left_to: returns the older cluster that waits for a Machine, "" where there is none.
    """
    if claimant.makes:
        return f"{missing} more machine{'' if missing == 1 else 's'} to be made"
    names = dig(claimant.wanted, "machines", "names") or []
    labels = dig(claimant.wanted, "machines", "pool", "selector", "matchLabels") or {}
    others = [m for m in machines if claimant.chooses(m) and not claimant.has(m)]
    pairs = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    of = f" of {', '.join(names)}" if names else f" with labels {pairs}" if labels else ""
    states: dict[str, list[str]] = defaultdict(list)
    for machine in others:
        states[_state(machine, left_to)].append(machine["metadata"]["name"])
    there = f"{len(others)} {'exists' if len(others) == 1 else 'exist'}" if others or not names else ""
    words = [
        f"{len(group)} {'is' if len(group) == 1 else 'are'} {state} ({_some(group)})"
        for state, group in sorted(states.items())
    ]
    absent = sorted(set(names) - {m["metadata"]["name"] for m in machines})
    seen = ", ".join(filter(None, (there, *words, f"{', '.join(absent)} not found" if absent else "")))
    return f"waiting for {missing} more machine{'' if missing == 1 else 's'}{of}: {seen}"


def _state(machine: Json, left_to: Callable[[Json], str] | None) -> str:
    claim = dig(machine, "spec", "claim")
    if claim:
        return f"claimed by cluster {claim['cluster']}"
    if left_to is not None and claimable(machine) and (older := left_to(machine)):
        return f"left to the older cluster {older}"
    return "being deleted" if deleting(machine) else str(dig(machine, "status", "phase") or "Pending")


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
