"""Which machines are part of a cluster, which of them are to leave, and which are to join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.operator.api.cluster import AppliedHost, AppliedState
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, MachineRole, WantedSet
from harness.operator.decide.desired import Desired, Host, applied_host, groups_of, in_order, remembered_host
from harness.operator.decide.observed import Observed


@dataclass(frozen=True)
class Membership:
    """The machines of a cluster.

    members: those that were deployed, as they are reached now.  half: those that may have joined half.
    leaving: by Machine, of both, why it is to leave.  joining: those that are to become members, in their order.
    lacking: by set, how many machines are still to be claimed for it.
    """

    members: tuple[Host, ...]
    half: tuple[Host, ...]
    leaving: Mapping[str, str]
    joining: tuple[Host, ...]
    lacking: Mapping[str, int]


def membership(desired: Desired, observed: Observed) -> Membership:
    """Return who is part of a cluster, and who is to be."""
    applied, unsettled = observed.applied, observed.unsettled
    kept = _remembered(desired, applied) if applied is not None else ()
    names = {host.machine for host in kept}
    half = [host for host in (unsettled.hosts if unsettled is not None else ()) if host.machine not in names]
    claimed = {host.machine: host for host in desired.hosts}
    there = [_now(host, claimed) for host in (*kept, *half)]
    why = {host.machine: reason for host in there if (reason := _going(host.machine, claimed, observed))}
    sets_by_name = {machine_set.name: machine_set for machine_set in desired.spec.machine_sets}
    by_set: dict[str, list[str]] = {}
    for host in there:
        if host.machine not in why:
            by_set.setdefault(host.set_name, []).append(host.machine)
    order_out = (*(host.machine for host in half), *desired.scale_in)
    for name, machines in by_set.items():
        out = surplus(sets_by_name.get(name), machines, order_out)
        why |= dict.fromkeys(out, f"{desired.place_of(name)} is to lose {', '.join(out)}")
    joining: list[Host] = []
    lacking: dict[str, int] = {}
    for machine_set in sets_by_name.values():
        missing = machine_set.replicas - sum(
            name in names and name not in why for name in by_set.get(machine_set.name, ())
        )
        free = [
            host
            for host in desired.hosts
            if host.set_name == machine_set.name and _may_join(host, names, why, observed)
        ]
        free.sort(
            key=lambda host: host.machine not in by_set.get(machine_set.name, ())
        )  # who has joined half comes first
        chosen = [
            host for host in free if machine_set.machines.names is None or host.machine in machine_set.machines.names
        ]
        joining += chosen[: max(missing, 0)]
        lacking[machine_set.name] = max(missing - len(chosen), 0)
    order = desired.spec.machine_sets
    members = in_order([host for host in there if host.machine in names], order)
    others = in_order([host for host in there if host.machine not in names], order)
    return Membership(members, others, why, in_order(joining, order), lacking)


def _remembered(desired: Desired, applied: AppliedState) -> tuple[AppliedHost, ...]:
    """Return the machines of a cluster; an earlier operator remembered only their names."""
    return applied.hosts or tuple(applied_host(host) for host in desired.hosts if host.machine in applied.machines)


def surplus(machine_set: WantedSet | None, machines: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return those of a set's machines that it does not want any more; all where there is no such set.

    Args:
        order: in which machines are given up.
    """
    names = list(machines)
    if machine_set is None:
        return names
    if machine_set.machines.names is not None:
        return [name for name in names if name not in machine_set.machines.names]
    first = list(dict.fromkeys(name for name in order if name in names))
    return first[: max(len(names) - machine_set.replicas, 0)]


def _now(host: AppliedHost, claimed: Mapping[str, Host]) -> Host:
    """Return a remembered host as it is reached now. What it is in the cluster does not change."""
    then = remembered_host(host)
    now = claimed.get(host.machine)
    return then if now is None else replace(now, name=then.name, groups=then.groups)


def _going(machine: str, claimed: Mapping[str, Host], observed: Observed) -> str:
    """Return why a machine is to leave whatever its set wants, "" where nothing is known of that."""
    unsettled = observed.unsettled
    if unsettled is not None and machine in unsettled.leaving:
        return f"{machine} has left half: {unsettled.why}"
    if machine in observed.lost:
        return f"{machine} is lost: {observed.lost[machine]}"
    if machine not in claimed:
        return f"{machine} of the cluster: the cluster has claimed no Machine of that name"
    if machine in observed.deleted:
        return f"Machine {machine} is being deleted"
    return f"{machine} is to be replaced: {observed.replace[machine]}" if machine in observed.replace else ""


def _may_join(host: Host, members: set[str], leaving: Mapping[str, str], observed: Observed) -> bool:
    going = (leaving, observed.lost, observed.deleted, observed.replace)
    return host.machine not in members and not any(host.machine in some for some in going)


GUARDED: tuple[MachineRole, ...] = (ETCD, CONTROL_PLANE)


def majority(members: int) -> int:
    """Return how many of etcd's members have to answer."""
    return members // 2 + 1


def most_at_once(members: int) -> int:
    """Return how many of etcd's members may leave in one go, as remove-node.yml counts them."""
    return max(1, (members - 1) // 2)


def dead(desired: Desired, observed: Observed, who: Membership) -> tuple[Host, ...]:
    """Return the machines that are gone: as the infrastructure says, or unwanted ones that do not answer.

    One that the operator made goes with its Machine.
    Those that a recovery took for lost stay so until one succeeds: etcd may be restored without them.
    """
    there, half = (*who.members, *who.half), observed.unsettled
    silent = {name for name in who.leaving if name in observed.silent}
    gone = {*observed.lost, *silent, *(half.lost if half is not None else ())}
    went = {host.machine for host in there if host.made and host.machine not in desired.machines}
    return tuple(host for host in there if host.machine in gone | went)


def majority_in_doubt(desired: Desired, observed: Observed, who: Membership) -> bool:
    """Tell whether too few of etcd's members, or no control plane, are known to be well: the least that a loss is."""
    ill = {*observed.ill, *observed.silent, *(host.machine for host in dead(desired, observed, who))}
    return without_quorum(who, [host for host in who.members if host.machine in ill])


def without_quorum(who: Membership, gone: Sequence[Host]) -> bool:
    """Tell whether etcd has lost its majority, or the cluster all of its control planes, with these machines."""
    return etcd_lost(who, gone) or CONTROL_PLANE in roles_lost(who, gone)


def etcd_lost(who: Membership, gone: Sequence[Host]) -> bool:
    """Tell whether etcd has lost its majority with these machines; never where all of it is elsewhere."""
    members = _of(who.members, ETCD)
    return bool(gone) and bool(members) and len(_but(members, gone)) < majority(len(members))


def roles_lost(who: Membership, gone: Sequence[Host]) -> tuple[MachineRole, ...]:
    """Return the roles of which machines were members, and no machine is left without these."""
    left = _but(who.members, gone)
    return tuple(role for role in GUARDED if gone and _of(who.members, role) and not _of(left, role))


def to_recover(desired: Desired, observed: Observed, who: Membership) -> bool:
    """Tell whether the machines that are to leave are to be lost: then nothing is removed before all of them are."""
    leaving = [host for host in (*who.members, *who.half) if host.machine in who.leaving]
    return majority_in_doubt(desired, observed, who) and without_quorum(who, leaving)


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
    count = sum(machine_set.replicas for machine_set in sets if GROUPS[role] in groups_of(machine_set, desired.spec))
    had, left = len(_of((*who.members, *who.half), role)), len(_of(after, role))
    fits = left >= count if had > count else had == count and left == had - 1
    return left > 0 and fits and (role != ETCD or had - left <= most_at_once(had))


def _of(hosts: Iterable[Host], role: MachineRole) -> list[Host]:
    return [host for host in hosts if GROUPS[role] in host.groups]


def _but(hosts: Iterable[Host], without: Iterable[Host]) -> list[Host]:
    names = {host.machine for host in without}
    return [host for host in hosts if host.machine not in names]
