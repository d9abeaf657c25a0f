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
    for reason, said in (
        ("Corrupt", _alarmed(world.etcd, CORRUPT, "data differ from the others': replace the Machine")),
        ("NoSpace", _alarmed(world.etcd, NOSPACE, "it takes no writes; the operation defragment helps")),
        ("OtherAlarm", [f"{name}: alarm {one.alarm}" for name, one in world.etcd.items() if _other(one)]),
        ("NoLeader", [f"{name} has no leader" for name, one in world.etcd.items() if not one.has_leader]),
        ("QuotaAlmostUsed", [_fills(name, one) for name, one in world.etcd.items() if full(one)]),
        ("SlowDisk", _slow(world.etcd, "fsync_milliseconds", SLOW_DISK_MILLISECONDS, "of the writes to its disk")),
        (
            "SlowPeers",
            _slow(world.etcd, "round_trip_milliseconds", SLOW_PEER_MILLISECONDS, "of the round trips to its peers"),
        ),
    ):
        if said:
            return EtcdHealth(False, reason, "; ".join(said))
    return EtcdHealth(True, "AsExpected", "")


def full(one: MachineEtcd) -> bool:
    """Tell whether a member's file soon fills its quota."""
    return one.quota_mib > 0 and one.size_mib * 100 > one.quota_mib * FULL_PERCENT


def _alarmed(members: Mapping[str, MachineEtcd], alarm: str, what: str) -> list[str]:
    return [f"{name}: alarm {alarm}, {what}" for name, one in members.items() if one.alarm == alarm]


def _other(one: MachineEtcd) -> bool:
    return one.alarm not in ("", NOSPACE, CORRUPT)


def _fills(name: str, one: MachineEtcd) -> str:
    remedy = "delete objects, or raise spec.etcd.extraArgs quota-backend-bytes"
    return f"{name} fills {one.size_mib} of {one.quota_mib} MiB: {remedy}"


def _slow(members: Mapping[str, MachineEtcd], field: str, limit: int, what: str) -> list[str]:
    return [
        f"{name}: 99 in 100 {what} take up to {milliseconds} ms"
        for name, one in members.items()
        if (milliseconds := int(getattr(one, field))) > limit
    ]


def relieve(found: Situation) -> Due | None:
    """Return the defragmentation that has a full etcd take writes again."""
    known = found.observed.etcd
    filled = [name for name, one in known.items() if one.alarm == NOSPACE]
    if not filled or _corrupt(known):
        return None
    return _due(found, f"etcd takes no writes: alarm {NOSPACE} of {', '.join(filled)}", {"full": filled})


def defragment(found: Situation) -> Due | None:
    """Return the defragmentation of members that gain enough by it, unless a member is not well: it can wait."""
    known = found.observed.etcd
    percent, mebibytes = (_number(found.desired.variables, *limit) for limit in (PERCENT, MEBIBYTES))
    loose = {
        name: one.free_mib
        for name, one in known.items()
        if one.free_mib >= mebibytes and one.free_mib * 100 >= one.size_mib * percent
    }
    if not loose or any(one.alarm for one in known.values()) or every_member_well(found) is not None:
        return None
    why = (f"{mib} MiB of {known[name].size_mib} MiB of {name}'s etcd are free" for name, mib in loose.items())
    return _due(found, "; ".join(why), {"free": loose})


def _due(found: Situation, why: str, more: Mapping[str, Any]) -> Due:
    return replace(step(found, why, _members(found)), once=True, more=more)


def _corrupt(members: Mapping[str, MachineEtcd]) -> bool:
    return any(one.alarm == CORRUPT for one in members.values())


def every_member_well(found: Situation) -> Wait | None:
    """Wait until every member of etcd answers: one that is defragmented does not answer meanwhile."""
    seen = found.observed
    troubles = {**seen.ill, **seen.lost}
    down = {
        host.machine: troubles.get(host.machine) or "nothing was seen of its etcd since the last operation"
        for host in _members(found)
        if host.machine in troubles or host.machine not in seen.etcd or not seen.etcd[host.machine].has_leader
    }
    if not down:
        return None
    said = "; ".join(f"{name}: {why}" for name, why in down.items())
    return Wait(WaitReason.MAJORITY_AT_RISK, f"etcd is defragmented only while every member is well ({said})")


def _members(found: Situation) -> list[Host]:
    return [host for host in found.who.members if GROUPS[ETCD] in host.groups]


def _number(variables: Mapping[str, Any], name: str, usual: int) -> int:
    value = variables.get(name, usual)
    return value if isinstance(value, int) else usual
