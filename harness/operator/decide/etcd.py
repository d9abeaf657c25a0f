"""etcd of a cluster as its members tell it: what is wrong with it, and when a defragmentation is worth it; pure.

Limits of disks and networks: https://etcd.io/docs/v3.6/op-guide/hardware/ and the alerts that etcd's releases carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.operator.api.machine import MachineEtcd
from harness.operator.api.sets import ETCD, GROUPS
from harness.operator.decide.desired import Host
from harness.operator.decide.due import Due, Situation, Wait, WaitReason, step
from harness.operator.decide.observed import Observed

NOSPACE, CORRUPT = "NOSPACE", "CORRUPT"  # alarms
FULL_PERCENT = 80  # policy, of the quota: time to act is left
SLOW_DISK_MILLISECONDS = 100  # of 99 in 100 writes; a member that is slower misses heartbeats of 100 ms
SLOW_PEER_MILLISECONDS = 150  # of 99 in 100 round trips
# What the playbook takes as worth it, which has the same defaults.
PERCENT, MEBIBYTES = ("cluster_etcd_defragment_percent", 30), ("cluster_etcd_defragment_mebibytes", 100)


@dataclass(frozen=True)
class EtcdHealth:
    """Whether all is well with etcd; None where no member has told anything yet."""

    healthy: bool | None
    reason: str
    message: str


def health(world: Observed) -> EtcdHealth:
    """Return what is worst of all that members say."""
    if world.applied is None or not world.etcd:
        return EtcdHealth(None, "NotSeen", "no member was looked into since the last operation")
    for reason, troubles in (
        ("Corrupt", _alarmed(world.etcd, CORRUPT, "data differ from the others': replace the Machine")),
        ("NoSpace", _alarmed(world.etcd, NOSPACE, "it takes no writes; the operation defragment helps")),
        ("OtherAlarm", [f"{name}: alarm {member.alarm}" for name, member in world.etcd.items() if _other(member)]),
        ("NoLeader", [f"{name} has no leader" for name, member in world.etcd.items() if not member.has_leader]),
        ("QuotaAlmostUsed", [_fills(name, member) for name, member in world.etcd.items() if full(member)]),
        ("SlowDisk", _slow(world.etcd, "fsync_milliseconds", SLOW_DISK_MILLISECONDS, "of the writes to its disk")),
        (
            "SlowPeers",
            _slow(world.etcd, "round_trip_milliseconds", SLOW_PEER_MILLISECONDS, "of the round trips to its peers"),
        ),
    ):
        if troubles:
            return EtcdHealth(False, reason, "; ".join(troubles))
    return EtcdHealth(True, "AsExpected", "")


def full(member: MachineEtcd) -> bool:
    """Tell whether a member's file soon fills its quota."""
    return member.quota_mib > 0 and member.size_mib * 100 > member.quota_mib * FULL_PERCENT


def _alarmed(members: Mapping[str, MachineEtcd], alarm: str, what: str) -> list[str]:
    return [f"{name}: alarm {alarm}, {what}" for name, member in members.items() if member.alarm == alarm]


def _other(member: MachineEtcd) -> bool:
    return member.alarm not in ("", NOSPACE, CORRUPT)


def _fills(name: str, member: MachineEtcd) -> str:
    remedy = "delete objects, or raise spec.etcd.extraArgs quota-backend-bytes"
    return f"{name} fills {member.size_mib} of {member.quota_mib} MiB: {remedy}"


def _slow(members: Mapping[str, MachineEtcd], field: str, limit: int, what: str) -> list[str]:
    return [
        f"{name}: 99 in 100 {what} take up to {milliseconds} ms"
        for name, member in members.items()
        if (milliseconds := int(getattr(member, field))) > limit
    ]


def relieve(situation: Situation) -> Due | None:
    """Return the defragmentation that has a full etcd take writes again."""
    known = situation.observed.etcd
    filled = [name for name, member in known.items() if member.alarm == NOSPACE]
    if not filled or _corrupt(known):
        return None
    return _due(situation, f"etcd takes no writes: alarm {NOSPACE} of {', '.join(filled)}", {"full": filled})


def defragment(situation: Situation) -> Due | None:
    """Return the defragmentation of members that gain enough by it, unless a member is not well: it can wait."""
    known = situation.observed.etcd
    percent, mebibytes = (_number(situation.desired.variables, *limit) for limit in (PERCENT, MEBIBYTES))
    loose = {
        name: member.free_mib
        for name, member in known.items()
        if member.free_mib >= mebibytes and member.free_mib * 100 >= member.size_mib * percent
    }
    if not loose or any(member.alarm for member in known.values()) or every_member_well(situation) is not None:
        return None
    why = (f"{mib} MiB of {known[name].size_mib} MiB of {name}'s etcd are free" for name, mib in loose.items())
    return _due(situation, "; ".join(why), {"free": loose})


def _due(situation: Situation, why: str, more: Mapping[str, Any]) -> Due:
    return replace(step(situation, why, _members(situation)), once=True, more=more)


def _corrupt(members: Mapping[str, MachineEtcd]) -> bool:
    return any(member.alarm == CORRUPT for member in members.values())


def every_member_well(situation: Situation) -> Wait | None:
    """Wait until every member of etcd answers: one that is defragmented does not answer meanwhile."""
    observed = situation.observed
    troubles = {**observed.ill, **observed.lost}
    down = {
        host.machine: troubles.get(host.machine) or "nothing was seen of its etcd since the last operation"
        for host in _members(situation)
        if host.machine in troubles or host.machine not in observed.etcd or not observed.etcd[host.machine].has_leader
    }
    if not down:
        return None
    reasons = "; ".join(f"{name}: {why}" for name, why in down.items())
    return Wait(WaitReason.MAJORITY_AT_RISK, f"etcd is defragmented only while every member is well ({reasons})")


def _members(situation: Situation) -> list[Host]:
    return [host for host in situation.who.members if GROUPS[ETCD] in host.groups]


def _number(variables: Mapping[str, Any], name: str, usual: int) -> int:
    value = variables.get(name, usual)
    return value if isinstance(value, int) else usual
