"""Which cluster gets a Machine that several wait for: the oldest ClusterDeployment; pure.

Two clusters that each hold a part of a pool would wait for each other for ever. So a younger one takes nothing that an
older one waits for, and one that lacks machines gives back, youngest first, what an older one lacks. A cluster that has
all of its machines, or something on one, keeps that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.objects import deleting, dig, is_condition
from harness.operator.api.conditions import EMPTY, REACHABLE
from harness.operator.controllers.machine_choice import Claimant, claimable, oldest_first
from harness.operator.controllers.machine_phase import current, going

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
    named, found = {one["metadata"]["name"]: one for one in deployments}, []
    claimed = Counter(_claim(machine) for machine in machines if not going(machine))  # one look at each
    for claimant in (Claimant.of(one) for one in sets if not _takes_none(one)):
        deployment = named.get(claimant.cluster)
        missing = claimant.replicas - claimed[_values(claimant.json())]
        if deployment is not None and missing > 0 and may_claim(claimant, deployment):
            found.append(WaitingSet(claimant, age_of(deployment), missing))
    return tuple(sorted(found, key=lambda waiting: waiting.age))


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
    ages = {one.claimant.cluster: one.age for one in waiting}
    ours = [m for m in oldest_first(machines) if _cluster(m) in ages and m["metadata"]["name"] not in held]
    ours.sort(key=lambda m: ages[_cluster(m)])
    given: dict[str, str] = {}
    for one in waiting:
        lacking = one.missing - sum(_comes(m, held) for m in machines if one.claimant.chooses(m))
        younger = [m for m in reversed(ours) if ages[_cluster(m)] > one.age and one.claimant.chooses(m)]
        names = [name for m in younger if (name := m["metadata"]["name"]) not in given]
        given |= dict.fromkeys(names[: max(0, lacking)], one.claimant.cluster)
    return given


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
