"""Which machines a cell's phases take out of its cluster and add to it, and whether the added ones were new."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model import Cell
from harness.validate.facts.cluster import by_name
from harness.validate.findings import Mismatch, differs, on_every
from harness.validate.phases.observation import Observation


def gone_by(cell: Cell, index: int) -> tuple[str, ...]:
    """Return the machines that were removed from the cluster or lost in a phase or an earlier one."""
    return tuple(name for phase in cell.phases[: index + 1] for name in (*phase.removed, *phase.lost))


def joined_in(cell: Cell, index: int) -> tuple[str, ...]:
    """Return the machines of a phase's inventory that the one before did not have."""
    if index == 0:
        return ()
    return tuple(name for name in cell.phases[index].machines if name not in cell.phases[index - 1].machines)


def not_joined(before: Observation, after: Observation, joined: tuple[str, ...]) -> list[Mismatch]:
    """Return the machines that were part of the cluster before they joined it, or are not after."""
    was, now = by_name(before.view.nodes), by_name(after.view.nodes)

    def judge(name: str, _: str) -> Iterator[Mismatch]:
        if name in after.expected.nodes:
            yield from differs(f"{name}, before the phase", "is a node", False, name in was)
            ready = {c["type"]: c["status"] for c in now.get(name, {}).get("status", {}).get("conditions", [])}
            yield from differs(f"{name}, after it", "Ready", "True", ready.get("Ready"))
        if name in after.expected.etcd:
            yield from differs(f"{name}, before the phase", "is a member of etcd", False, name in _members(before))
            yield from differs(f"{name}, after it", "is a member of etcd", True, name in _members(after))

    found = [] if before.view.nodes and before.etcd else [Mismatch("before the phase", "nodes and members", "none")]
    return found + on_every(joined, {name: name for name in joined}, judge)


def _members(seen: Observation) -> set[str]:
    return {member.name for view in seen.etcd.values() for member in view.members}
