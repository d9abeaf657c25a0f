"""What differs between what is wanted and what was deployed, in the fields of a ClusterDeployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.operator.api.applied import AppliedState
from harness.operator.api.sets import WantedSet
from harness.operator.decide.desired import Desired
from harness.operator.decide.releases import variable
from harness.operator.decide.variables import HOSTS, Part, in_part, path_of

LONGEST = 40  # characters of a value that a reason repeats
FOLLOWING = tuple(map(variable, ("etcd", "coredns", "pause")))  # versions that change with Kubernetes' own


@dataclass(frozen=True)
class Due:
    """Something to do: why, and which Machines it is about."""

    why: str
    machines: tuple[str, ...]


def differing(desired: Desired, applied: AppliedState, part: Part) -> Due | None:
    """Return what is different in one part of a cluster, about all of its machines."""
    if applied.digests.get(part) == desired.digests[part]:
        return None
    before, after = in_part(applied.variables, part), in_part(desired.variables, part)
    names = [name for name in dict.fromkeys((*after, *before)) if before.get(name) != after.get(name)]
    if variable("kubernetes") in names:
        names = [name for name in names if name not in FOLLOWING]
    said = [_change(name, before, after) for name in names] or [f"{part} of the cluster differ from what was deployed"]
    return Due(", ".join(said), applied.machines)


def settings(desired: Desired, applied: AppliedState) -> Due | None:
    """Return the settings that are different, and the machines that are at another address."""
    found = differing(desired, applied, "settings")
    now, before = _addresses(desired.variables), _addresses(applied.variables)
    moved = [f"{n} has another address: {before[n]} -> {now[n]}" for n in now if before.get(n, now[n]) != now[n]]
    why = [*([found.why] if found is not None else []), *moved]
    return Due(", ".join(why), applied.machines) if why else None


def _addresses(variables: Mapping[str, Any]) -> dict[str, str]:
    return {host["name"]: host["address"] for host in variables.get(HOSTS) or ()}


def leaving(desired: Desired, applied: AppliedState) -> Due | None:
    """Return the machines of the cluster that are to leave, or are gone."""
    wanted = {one.name: one for one in desired.spec.machine_sets}
    why: list[str] = []
    found: list[str] = []
    for name, members in _by_set(desired, applied).items():
        out = _surplus(wanted.get(name), members)
        if out:
            found += out
            why.append(f"spec.machineSets[{name}] is to lose {', '.join(out)}")
    gone = [machine for machine in applied.machines if machine not in desired.machines]
    why += [f"{', '.join(gone)} of the cluster: no such Machine"] if gone else []
    return Due(", ".join(why), (*found, *gone)) if why else None


def joining(desired: Desired, applied: AppliedState) -> Due | None:
    """Return what is to join: machines that are claimed, and how many more are wanted."""
    why = []
    for one in desired.spec.machine_sets:
        members = _by_set(desired, applied).get(one.name, [])
        stay = len(members) - len(_surplus(one, members))
        if stay < one.replicas:
            why.append(f"spec.machineSets[{one.name}].replicas: {stay} deployed, {one.replicas} wanted")
    fresh = tuple(machine for machine in desired.machines if machine not in applied.machines)
    return Due(", ".join(why), fresh) if why else None


def _by_set(desired: Desired, applied: AppliedState) -> dict[str, list[str]]:
    """Return the machines of the cluster that are still there, by the set that has claimed them."""
    made: dict[str, list[str]] = {}
    for host in desired.hosts:
        if host.machine in applied.machines:
            made.setdefault(host.set_name, []).append(host.machine)
    return made


def _surplus(one: WantedSet | None, members: list[str]) -> list[str]:
    """Return those of a set's machines that it does not want any more; all where there is no such set."""
    if one is None:
        return members
    if one.machines.names is not None:
        return [name for name in members if name not in one.machines.names]
    return members[one.replicas :]


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    old, new = before.get(name), after.get(name)
    if all(value is None or isinstance(value, str | int | float) for value in (old, new)):
        return f"{path_of(name)}: {_short(old)} -> {_short(new)}"
    return f"{path_of(name)} changed"


def _short(value: Any) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
