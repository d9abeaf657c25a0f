"""Which of the machines that are to leave may leave now: a cluster keeps a control plane, and etcd its majority."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, MachineRole
from harness.operator.decide.desired import Desired
from harness.operator.decide.hosts import Host, groups_of
from harness.operator.decide.membership import Membership
from harness.operator.decide.observed import Observed

GUARDED: tuple[MachineRole, ...] = (ETCD, CONTROL_PLANE)


def majority(members: int) -> int:
    """Return how many of etcd's members have to answer."""
    return members // 2 + 1


def most_at_once(members: int) -> int:
    """Return how many of etcd's members may leave in one go, as remove-node.yml counts them."""
    return max(1, (members - 1) // 2)


def dead(desired: Desired, observed: Observed, who: Membership) -> tuple[Host, ...]:
    """Return the machines that are gone: as the infrastructure says, or unwanted ones that do not answer.

    Those that a recovery took for lost stay so until one succeeds: etcd may be restored without them.
    """
    there, half = (*who.members, *who.half), observed.unsettled
    silent = {name for name in who.leaving if name in observed.silent}
    gone = {*observed.lost, *silent, *(half.lost if half is not None else ())}
    return tuple(host for host in there if host.machine in gone)


def majority_in_doubt(desired: Desired, observed: Observed, who: Membership) -> bool:
    """Tell whether too few of etcd's members, or no control plane, are known to be well: the least that a loss is."""
    ill = {*observed.ill, *observed.silent, *(host.machine for host in dead(desired, observed, who))}
    return without_quorum(who, [host for host in who.members if host.machine in ill])


def without_quorum(who: Membership, gone: Sequence[Host]) -> bool:
    """Tell whether etcd has lost its majority, or the cluster all of its control planes, with these machines."""
    left = _but(who.members, gone)
    few = len(_of(left, ETCD)) < majority(len(_of(who.members, ETCD)))
    return bool(gone) and (few or not _of(left, CONTROL_PLANE))


def to_recover(desired: Desired, observed: Observed, who: Membership) -> bool:
    """Tell whether the machines that are to leave are to be lost: then nothing is removed before all of them are."""
    leaving = [host for host in (*who.members, *who.half) if host.machine in who.leaving]
    named = desired.spec.etcd.restore_from is not None and majority_in_doubt(desired, observed, who)
    return named and without_quorum(who, leaving)


def batch(desired: Desired, observed: Observed, who: Membership) -> tuple[Host, ...]:
    """Return the machines that leave next. The others follow when these have left, or when others have joined.

    What is gone leaves first, and what has left half. Of etcd's members that live, only so many leave that the others
    are a majority, and none in whose place another one is still to join.
    """
    there = (*who.members, *who.half)
    leaving = [host for host in there if host.machine in who.leaving]
    if to_recover(desired, observed, who):
        return ()
    half_left = observed.unsettled.leaving if observed.unsettled is not None else ()
    gone = dead(desired, observed, who)
    if first := [host for host in leaving if host in gone or host.machine in half_left]:
        return tuple(first)
    chosen: list[Host] = []
    order = [*(host.machine for host in who.half), *desired.scale_in]
    for host in sorted(leaving, key=lambda host: order.index(host.machine) if host.machine in order else -1):
        after = _but(there, [*chosen, host])
        if all(_may_leave(desired, who, host, role, after) for role in GUARDED):
            chosen.append(host)
    return tuple(host for host in leaving if host in chosen)


def _may_leave(desired: Desired, who: Membership, host: Host, role: MachineRole, after: Sequence[Host]) -> bool:
    """Tell whether a machine may leave as far as one role goes; `after`: the machines that would be left.

    Of more than are wanted, all may leave that are too many; of as many as are wanted, one, in whose place another
    one joins; of fewer none.
    """
    if GROUPS[role] not in host.groups:
        return True
    sets = desired.spec.machine_sets
    wanted = sum(one.replicas for one in sets if GROUPS[role] in groups_of(one, sets))
    had, left = len(_of((*who.members, *who.half), role)), len(_of(after, role))
    fits = left >= wanted if had > wanted else had == wanted and left == had - 1
    return left > 0 and fits and (role != ETCD or had - left <= most_at_once(had))


def _of(hosts: Iterable[Host], role: MachineRole) -> list[Host]:
    return [host for host in hosts if GROUPS[role] in host.groups]


def _but(hosts: Iterable[Host], without: Iterable[Host]) -> list[Host]:
    names = {host.machine for host in without}
    return [host for host in hosts if host.machine not in names]
