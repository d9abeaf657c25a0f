"""The way of an upgrade: one minor version of Kubernetes at a time, through versions of the release table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.operator.api.applied import AppliedState
from harness.operator.api.variables import variable
from harness.operator.decide.desired import Desired
from harness.operator.decide.releases import numbers
from harness.operator.decide.variables import with_parts


@dataclass(frozen=True)
class Hop:
    """One step. version: of Kubernetes.  last: whether the wish is reached.  variables: all, as they are after it."""

    version: str
    last: bool
    variables: Mapping[str, Any]


def next_hop(desired: Desired, applied: AppliedState) -> Hop:
    """Return the next step from what was applied.

    Where machines get files from is as wished on the whole way. Settings are those of the cluster until the last
    step: they are meant for the wished version, which takes them on together with it.
    """
    way = desired.releases.hops(applied.version, desired.spec.version)
    if len(way) < 2:
        variables = with_parts(applied.variables, desired.variables, None, "version", "source", "settings")
        return Hop(desired.spec.version, True, variables)
    version = way[0]
    made = with_parts(applied.variables, desired.variables, None, "source")
    made[variable("kubernetes")] = version
    for name, known in desired.releases.kubernetes.get(version, {}).items():
        made[variable(name)] = max(known, str(made.get(variable(name), "0")), key=numbers)  # etcd never goes back
    return Hop(version, False, made)
