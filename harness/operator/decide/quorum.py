"""Whether etcd can do without members that are gone: else their removal would begin, fail, and stand in the way."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operator.api.sets import ETCD, GROUPS
from harness.operator.decide.due import Situation
from harness.operator.decide.hosts import Host
from harness.operator.decide.removal import dead, majority
from harness.operator.decide.waits import Wait, WaitReason

SETTLE_SECONDS = 30.0  # policy: machines that go together, such as those of one rack, are all known to be gone by then


def unproved(found: Situation, out: Sequence[Host]) -> Wait | None:
    """Return what the removal of members that are gone waits for: a majority of the others, and no further loss.

    Args:
        out: the machines that are to be removed.
    """
    observed, members = found.observed, [host for host in found.who.members if GROUPS[ETCD] in host.groups]
    gone = [host for host in dead(found.desired, observed, found.who) if host in members]
    if not any(host in out for host in gone):
        return None
    names, needed = ", ".join(host.machine for host in gone), majority(len(members))
    ill = [host.machine for host in members if host not in gone and host.machine in observed.ill]
    if (well := len(members) - len(gone) - len(ill)) < needed:
        others = "; ".join(f"{name}: {observed.ill[name]}" for name in ill)
        text = f"etcd has {len(members)} members and needs {needed}; {names} cannot be removed while {well} are well"
        return Wait(WaitReason.MAJORITY_AT_RISK, f"{text} ({others})")
    since = [observed.now - observed.lost_at[host.machine] for host in gone if host.machine in observed.lost_at]
    left = SETTLE_SECONDS - min((age.total_seconds() for age in since), default=SETTLE_SECONDS)
    if left <= 0:
        return None
    text = f"{names} can be removed if no more of etcd's members is lost within {SETTLE_SECONDS:.0f} s"
    return Wait(WaitReason.MAJORITY_AT_RISK, text, min(left, SETTLE_SECONDS))
