"""What differs between what is wanted and what was deployed, in the fields of a ClusterDeployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.operator.api.applied import AppliedState
from harness.operator.api.variables import Part, variable
from harness.operator.decide.desired import Desired, digest_of
from harness.operator.decide.hosts import Host
from harness.operator.decide.variables import in_part, path_of

LONGEST = 40  # characters of a value that a reason repeats
FOLLOWING = tuple(map(variable, ("etcd", "coredns", "pause")))  # versions that change with Kubernetes' own


def differing(desired: Desired, applied: AppliedState, *parts: Part) -> list[str]:
    """Return what is different in these parts of a cluster."""
    return [said for part in parts for said in _in_part(desired, applied, part)]


def _in_part(desired: Desired, applied: AppliedState, part: Part) -> list[str]:
    before, after = in_part(applied.variables, part), in_part(desired.variables, part)
    if digest_of(before) == desired.digests[part]:
        return []
    names = [name for name in dict.fromkeys((*after, *before)) if before.get(name) != after.get(name)]
    if variable("kubernetes") in names:
        names = [name for name in names if name not in FOLLOWING]
    return [_change(name, before, after) for name in names] or [f"{part} of the cluster differ from what was deployed"]


def moved(members: Iterable[Host], applied: AppliedState) -> list[str]:
    """Return which machines of the cluster are at another address."""
    before = {host.machine: host.address for host in applied.hosts}
    found = ((host.machine, before.get(host.machine, host.address), host.address) for host in members)
    return [f"{name} has another address: {old} -> {new}" for name, old, new in found if old != new]


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    old, new = before.get(name), after.get(name)
    if all(value is None or isinstance(value, str | int | float) for value in (old, new)):
        return f"{path_of(name)}: {_short(old)} -> {_short(new)}"
    return f"{path_of(name)} changed"


def _short(value: Any) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
