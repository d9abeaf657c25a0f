"""Drills: the newest backup is restored into an etcd that is thrown away, and compared with what the cluster had; pure.

A digest says that a snapshot is what was written, only a drill says that a cluster begins with it. What it is compared
with was counted by a member of etcd, which knows nothing of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from harness.kube.objects import parse_time, stamp
from harness.operator.api.cluster import DrillResult, DrillState
from harness.operator.api.etcd import EtcdBackupPolicy
from harness.operator.api.schedules import CronSchedule
from harness.operator.decide.backups import INTERVALS, SeenBackup, newest_verified, times_of
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Due, Situation, Wait, WaitReason, given_up, step
from harness.operator.decide.observed import DRILL, SUCCEEDED

BUSY_SECONDS = 10.0  # pacing: operations of other clusters are not watched by this one


def asked(
    policy: EtcdBackupPolicy, known: DrillState | None, now: datetime
) -> tuple[DrillState | None, datetime | None]:
    """Return what is to be remembered of drills, with the last time of their schedule; and when its next time is.

    Args:
        known: what was remembered.  now: the caller's clock.
    """
    if policy.drill is None:
        return None, None
    state = known or DrillState()
    time = times_of(policy.drill, policy.time_zone, state.schedule, now)
    schedule = time.state
    if schedule is not None and time.due is not None:
        schedule = schedule.model_copy(update={"last": stamp(time.due)})
    return state.model_copy(update={"schedule": schedule}), time.following


def to_drill(backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the backup that a drill restores: the newest one that can be restored and whose keys were counted."""
    return newest_verified(backup for backup in backups if backup.objects is not None)


def drill(situation: Situation) -> Due | None:
    """Return the drill that the schedule asks for.

    One that failed is not repeated with the same backup and inputs. A newer backup is drilled at once after it.
    """
    state, backup = situation.observed.drill, to_drill(situation.observed.backups)
    time = state.schedule.last if state is not None and state.schedule is not None else None
    if situation.desired.spec.etcd.backup.drill is None or state is None or time is None or backup is None:
        return None
    due = replace(
        step(situation, f"EtcdBackup {backup.name} is to be proven", ()), applies=situation.applied, once=True
    )
    told = backup.snapshot().model_copy(update={"forget": (), "expected": (), "drill": time})
    due = replace(due, snapshot=told, more={"drill": time, "backup": backup.uid})
    last = state.last
    if last is None or last.time < time:
        return due
    same = last.outcome == SUCCEEDED or (
        last.digest == due.digest(DRILL, situation.desired) and given_up(last, situation.desired)
    )
    return None if same else due


def claim_in_use(situation: Situation) -> Wait | None:
    """Wait while an operation of another cluster has the claim: a volume may be mounted by one pod or node only."""
    due = drill(situation)
    claim = due.snapshot.claim if due is not None and due.snapshot is not None else None
    user = situation.observed.claims_in_use.get(claim) if claim is not None else None
    if user is None:
        return None
    text = f"{DRILL} begins once PersistentVolumeClaim {claim} is free: {user} uses it"
    return Wait(WaitReason.WAITING_FOR_CLAIM, text, BUSY_SECONDS)


NO_DRILL, NO_BACKUP, NEVER_DRILLED, FAILED, OLD, PROVEN = (
    *("NoDrill", "NoBackup", "NeverDrilled", "DrillFailed", "Old", "Proven"),
)


@dataclass(frozen=True)
class BackupProof:
    """Whether a backup was proven to be of use; None where nobody can tell yet.

    turns: when that may change although no object does.
    """

    proven: bool | None
    reason: str
    message: str
    turns: datetime | None = None


def proof(desired: Desired, state: DrillState | None, backups: Iterable[SeenBackup], now: datetime) -> BackupProof:
    """Return whether a drill has proven a backup, and lately enough.

    Args:
        state: what is remembered of drills.  now: the caller's clock.
    """
    policy = desired.spec.etcd.backup
    if policy.drill is None:
        field = desired.in_words("spec.etcd.backup.drill")
        return BackupProof(None, NO_DRILL, f"nothing proves backups: set {field}, such as to weekly")
    last, proven = (state.last, state.proven) if state is not None else (None, None)
    if last is not None and last.outcome != SUCCEEDED and given_up(last, desired):
        return BackupProof(False, FAILED, failure(last))
    cron = CronSchedule.of(policy.drill, policy.time_zone)
    if proven is None:
        return _never(to_drill(backups), cron.after(now))
    ended = min(parse_time(proven.ended), now) if proven.ended else now
    longest: timedelta = INTERVALS * cron.interval(now)
    if now >= ended + longest:
        late = f"and it should not be longer ago than {longest.total_seconds() / 3600:.4g} h"
        why = f"; {failure(last)}" if last is not None and last.outcome != SUCCEEDED else _none_to_drill(backups)
        return BackupProof(False, OLD, f"the last drill that proved a backup was at {proven.ended}, {late}{why}")
    return BackupProof(True, PROVEN, success(proven), ended + longest)


def _never(backup: SeenBackup | None, following: datetime) -> BackupProof:
    if backup is None:
        message = "there is no verified backup whose keys were counted: a drill follows the next one that is"
        return BackupProof(None, NO_BACKUP, message)
    return BackupProof(None, NEVER_DRILLED, f"{backup.name} is drilled at {stamp(following)} or before", following)


def _none_to_drill(backups: Iterable[SeenBackup]) -> str:
    return "" if to_drill(backups) is not None else "; there is no verified backup whose keys were counted"


def success(result: DrillResult) -> str:
    """Return what a drill has proven, in one line."""
    number = f" with all {result.objects} keys" if result.objects is not None else ""
    revision = f" of revision {result.revision}" if result.revision is not None else ""
    return f"{result.backup} was restored at {result.ended}{number}{revision}, read and counted"


def failure(result: DrillResult) -> str:
    """Return why a drill has failed and what to do, in one line."""
    cause = f"the drill of EtcdBackup {result.backup} at {result.ended} failed: {result.summary or result.outcome}"
    hint = f"; {result.hint}" if result.hint else ""
    return f"{cause}{hint}; the next verified backup is drilled at once: make an EtcdBackup"
