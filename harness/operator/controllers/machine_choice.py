"""Choice of Machines: which a set may claim, in which order, which cluster goes first, and why there are too few.

Two clusters that each hold a part of a pool would wait for each other for ever. So a younger one takes nothing that an
older one waits for, and one that lacks machines gives back, youngest first, what an older one lacks. A cluster that has
all of its machines, or something on one, keeps that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.informer import Key, labels_of
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import controller_of, deleting, dig, is_condition
from harness.operator.api.conditions import EMPTY, REACHABLE
from harness.operator.controllers.machine import NOT_EMPTY
from harness.operator.controllers.machine_phase import IDLE, current, going
from harness.operator.decide.spread import Spreading, claimed_in_order, first_names


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
    spreading = Spreading.of(claimant.wanted)
    own = [m for m in machines if claimant.has(m) and not going(m)]
    fitting = list(claimed_in_order(spreading, filter(claimable, others), own))
    states: dict[str, list[str]] = defaultdict(list)
    for machine in others:
        crowded = spreading.key if claimable(machine) and machine not in fitting else ""
        states[_state(machine, left_to, crowded)].append(machine["metadata"]["name"])
    there = f"{len(others)} {'exists' if len(others) == 1 else 'exist'}" if others or not names else ""
    words = [
        f"{len(group)} {'is' if len(group) == 1 else 'are'} {state} ({first_names(group)})"
        for state, group in sorted(states.items())
    ]
    absent = sorted(set(names) - {m["metadata"]["name"] for m in machines})
    summary = ", ".join(filter(None, (there, *words, f"{', '.join(absent)} not found" if absent else "")))
    return f"waiting for {missing} more machine{'' if missing == 1 else 's'}{of}: {summary}"


def scarce_domains(sets: Sequence[Json], cluster: str, machines: Sequence[Json]) -> Iterator[SpecMistake]:
    """Yield the sets that want more machines than failure domains that their Machines are in, and each its own.

    A set that waits for Machines anyway is none of them: what comes may be in others.

    Args:
        sets: of a ClusterDeployment.  machines: those of the namespace.
    """
    for number, machine_set in enumerate(sets):
        spreading, replicas = Spreading.of(machine_set), int(machine_set.get("replicas", 1))
        claimant = Claimant(machine_set, cluster, "")
        if not spreading.required or spreading.domains or claimant.makes:
            continue
        places = ((cluster, machine_set["name"]), (None, None))
        free = [m for m in machines if claimant.chooses(m) and _claim(m)[:2] in places and not going(m)]
        known = spreading.known(free)
        if len(free) >= replicas > len(known):
            there = f"{len(known)} of {spreading.key}" + (f" ({', '.join(known)})" if known else "")
            message = f"{replicas} machines need as many failure domains, and the Machines are in {there}"
            remedy = "label Machines in others, lower replicas, or set policy to Preferred"
            yield SpecMistake(f"spec.machineSets[{number}].failureDomains", message, remedy)


def _state(machine: Json, left_to: Callable[[Json], str] | None, crowded: str) -> str:
    """Return why a Machine is not claimed. crowded: the label by which the set has enough where it is, "" for none."""
    claim = dig(machine, "spec", "claim")
    if claim:
        return f"claimed by cluster {claim['cluster']}"
    if left_to is not None and claimable(machine) and (older := left_to(machine)):
        return f"left to the older cluster {older}"
    if crowded:
        return f"in no domain of {crowded} that lacks a machine"
    return "being deleted" if deleting(machine) else str(dig(machine, "status", "phase") or "Pending")


CLAIMED, CLUSTER_LOST = "MachinesClaimed", "ClusterLost"  # condition of a MachineSet, and why it claims nothing
Age = tuple[str, str]  # when a ClusterDeployment was made, and its name: two of one second are told apart


@dataclass(frozen=True)
class WaitingSet:
    """A set that lacks Machines and may claim them, with the age of its ClusterDeployment."""

    claimant: Claimant
    age: Age
    missing: int


def may_claim(claimant: Claimant, deployment: Json) -> bool:
    """Tell whether a set's ClusterDeployment is the same still, stays, and is not paused."""
    same = deployment["metadata"]["uid"] == claimant.uid
    return same and not deleting(deployment) and not dig(deployment, "spec", "paused")


def waiting_sets(sets: Iterable[Json], deployments: Iterable[Json], machines: Sequence[Json]) -> tuple[WaitingSet, ...]:
    """Return the sets of a namespace that lack Machines, those of the oldest ClusterDeployment first."""
    named, waiting = {deployment["metadata"]["name"]: deployment for deployment in deployments}, []
    claimed = Counter(_claim(machine) for machine in machines if not going(machine))  # one look at each
    for claimant in (Claimant.of(machine_set) for machine_set in sets if not _takes_none(machine_set)):
        deployment = named.get(claimant.cluster)
        missing = claimant.replicas - claimed[_values(claimant.json())]
        if deployment is not None and missing > 0 and may_claim(claimant, deployment):
            waiting.append(WaitingSet(claimant, age_of(deployment), missing))
    return tuple(sorted(waiting, key=lambda waiting: waiting.age))


def _takes_none(machine_set: Json) -> bool:
    """Tell whether a set takes no Machine of anybody's: it goes, has them made, or its cluster is lost."""
    lost = is_condition(machine_set, CLAIMED, "False", CLUSTER_LOST)
    return deleting(machine_set) or lost or Claimant.of(machine_set).makes


def goes_first(machine: Json, deployment: Json, waiting: Iterable[WaitingSet]) -> str:
    """Return the older cluster that a Machine is left to, "" where a set of the ClusterDeployment may claim it."""
    own = age_of(deployment)
    return next((w.claimant.cluster for w in waiting if w.age < own and w.claimant.chooses(machine)), "")


def given_back(waiting: Sequence[WaitingSet], machines: Sequence[Json], held: Collection[str]) -> Mapping[str, str]:
    """Return the Machines that clusters which wait give back, each with the older cluster that gets it.

    Args:
        held: names of Machines that some cluster has something on.
    """
    ages = {waiting_set.claimant.cluster: waiting_set.age for waiting_set in waiting}
    ours = [m for m in oldest_first(machines) if _cluster(m) in ages and m["metadata"]["name"] not in held]
    ours.sort(key=lambda m: ages[_cluster(m)])
    cluster_by_machine: dict[str, str] = {}
    for waiting_set in waiting:
        lacking = waiting_set.missing - sum(_comes(m, held) for m in machines if waiting_set.claimant.chooses(m))
        younger = [m for m in reversed(ours) if ages[_cluster(m)] > waiting_set.age and waiting_set.claimant.chooses(m)]
        names = [name for m in younger if (name := m["metadata"]["name"]) not in cluster_by_machine]
        cluster_by_machine |= dict.fromkeys(names[: max(0, lacking)], waiting_set.claimant.cluster)
    return cluster_by_machine


def age_of(deployment: Json) -> Age:
    """Return what the order of clusters follows from."""
    meta = deployment["metadata"]
    return str(meta.get("creationTimestamp", "")), str(meta["name"])


def _comes(machine: Json, held: Collection[str]) -> bool:
    """Tell whether a Machine is free, or will be once somebody has looked at it."""
    if dig(machine, "spec", "claim") or deleting(machine) or machine["metadata"]["name"] in held:
        return False
    return claimable(machine) or any(current(machine, kind) is None for kind in (REACHABLE, EMPTY))


def _claim(machine: Json) -> tuple[str | None, ...]:
    return _values(dig(machine, "spec", "claim") or {})


def _values(claim: Json) -> tuple[str | None, ...]:
    return claim.get("cluster"), claim.get("set"), claim.get("uid")


def _cluster(machine: Json) -> str:
    return str(dig(machine, "spec", "claim", "cluster") or "")
