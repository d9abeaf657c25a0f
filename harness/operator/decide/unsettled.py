"""What operations leave behind that do not succeed: parts that may be changed half, machines that joined or left half.

The rule is in docs/decisions/operator-deciding.md: what may be done half is put right before it counts as applied,
whatever is wished by then. What only checked, or was never started, leaves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.operator.api.applied import AppliedState, UnsettledState
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.variables import Part

CHANGES: Mapping[str, tuple[Part, ...]] = {  # parts of the cluster that an operation changes
    "upgrade": ("version", "source", "settings"),
    "reconfigure": ("version", "source", "settings"),
    "addons": ("addons",),
}
SETTLES: Mapping[str, tuple[Part, ...]] = {  # parts that are as its variables say, on every machine, once it succeeded
    "upgrade": ("version", "source", "settings", "addons"),
    "reconfigure": ("version", "source", "settings", "addons"),
    "addons": ("addons",),
}
RECOVER = "recover"
LEAVE = frozenset({"remove-node", RECOVER})  # operations whose machines leave
ANEW = frozenset({"deploy", "reset"})  # operations after which nothing from before is left
# By operation, the first plays of its playbook, which change nothing. One that fails while it drains leaves nodes as
# schedulable as they were.
PREFLIGHT = "Check the request before any machine changes"
CHECKPOINT = "Restore settings that an interrupted run left"  # what that run may have left half stays noted
SAME_VERSION = "Refuse a Kubernetes version that differs from the running one"
REMOVAL = ("Choose the machines that act", "Refuse to start if no machine can act", "Refuse to remove etcd's majority")
CHECKS: Mapping[str, tuple[str, ...]] = {
    "deploy": (PREFLIGHT, CHECKPOINT, SAME_VERSION),
    "scale": (PREFLIGHT, CHECKPOINT, SAME_VERSION),
    "upgrade": (PREFLIGHT, CHECKPOINT, "Refuse forbidden version skew", "Fetch new binaries and images"),
    "reconfigure": (PREFLIGHT, CHECKPOINT, "Refuse to change versions", "Refuse settings that cannot work"),
    "remove-node": ("Check the request", *REMOVAL, "Drain the nodes"),
    "recover": ("Group lost and remaining machines",),
}


def unsettled_after(
    before: UnsettledState | None, applied: AppliedState | None, operation: CurrentOperation, outcome: str
) -> UnsettledState | None:
    """Return what may be done half after the end of an operation that touched machines; None: nothing.

    Args:
        before: what was so when it began.  applied: what was applied then.
    """
    old, name, after = before or UnsettledState(), operation.operation, operation.applies
    if outcome == "succeeded":
        there = (*(after.machines if after is not None else ()), *operation.machines)
        left = UnsettledState(
            parts=tuple(part for part in old.parts if part not in SETTLES.get(name, ())),
            hosts=tuple(host for host in old.hosts if host.machine not in there),
            leaving=tuple(machine for machine in old.leaving if machine not in operation.machines),
            lost=tuple(machine for machine in old.lost if machine not in operation.machines),
            why=old.why,
        )
        return left if name not in ANEW and (left.parts or left.hosts or left.leaving) else None
    known = {host.machine for host in (*old.hosts, *(applied.hosts if applied is not None else ()))}
    joined = [host for host in (after.hosts if after is not None else ()) if host.machine not in known]
    made = UnsettledState(
        parts=tuple(dict.fromkeys((*old.parts, *CHANGES.get(name, ())))),
        hosts=(*old.hosts, *joined),
        leaving=tuple(dict.fromkeys((*old.leaving, *(operation.machines if name in LEAVE else ())))),
        lost=tuple(dict.fromkeys((*old.lost, *(operation.machines if name == RECOVER else ())))),
        why=f"{name} {operation.sequence} {outcome}",
    )
    return made if made.parts or made.hosts or made.leaving else None
