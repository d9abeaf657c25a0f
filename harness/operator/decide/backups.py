"""The EtcdBackups of a cluster as decisions see them: what is to be taken, and what can be restored; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from harness.kube.objects import parse_time, stamp
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.etcd import (
    MISSING,
    VERIFIED,
    BackupScheduleState,
    EtcdBackup,
    EtcdBackupPolicy,
    OperationSnapshot,
    S3Destination,
)
from harness.operator.api.resources import BEFORE_LABEL, SCHEDULED_LABEL, UID_LABEL
from harness.operator.api.schedules import CronSchedule

BackupState = Literal["due", "blocked", "verified", "failed", "foreign"]
OF_PHASE: dict[str | None, BackupState] = {
    "Waiting": "due",
    "Running": "due",
    "Verified": "verified",
    "Failed": "failed",
    MISSING: "failed",
}


@dataclass(frozen=True)
class SeenBackup:
    """One EtcdBackup.

    claim or s3, file: where its snapshot lies, or will.  said: why it is not verified.  taken: when.
    before: digest of the wish before which the operator made it, "" for one that a person or a schedule made.
    scheduled: the time for which a schedule made it, "" for any other.
    expected: files of others in the same claim.  etcd: the version that it was taken of, "" where nobody knows.
    kubernetes: likewise.  encryption: name of the key of its Secrets, "" for none, None where nobody knows.
    objects: how many keys the cluster had, None where nobody counted them.
    cluster: that it was taken of, by name.  whole: whether its own status says that it can be read.
    clusters: of an EtcdCluster, those with keys in it.
    """

    name: str
    uid: str
    state: BackupState
    claim: str = ""
    file: str = ""
    said: str = ""
    taken: str = ""
    before: str = ""
    scheduled: str = ""
    forget: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    s3: S3Destination | None = None
    etcd: str = ""
    kubernetes: str = ""
    encryption: str | None = None
    objects: int | None = None
    cluster: str = ""
    whole: bool = False
    clusters: tuple[str, ...] = ()

    def snapshot(self) -> OperationSnapshot:
        """Return what an operation on it is told."""
        return OperationSnapshot(
            backup=self.name,
            uid=self.uid,
            claim=self.claim or None,
            s3=self.s3,
            file=self.file,
            forget=self.forget,
            expected=self.expected,
        )


def seen_backups(
    cluster: DeclaredCluster, backups: Iterable[EtcdBackup], now: datetime | None = None
) -> tuple[SeenBackup, ...]:
    """Return the EtcdBackups of a cluster's namespace as it sees them, those taken last first, then the oldest wish.

    Args:
        now: the caller's clock, for what cannot be deleted before a time; None: nothing is waited for.
    """
    existing = [backup for backup in backups if backup.metadata.deletion_timestamp is None]
    files = _files(cluster, existing, now)
    wishes = sorted(existing, key=lambda backup: (backup.metadata.creation_timestamp or "", backup.metadata.name))
    views = (_seen(cluster, backup, files) for backup in wishes)
    return tuple(sorted(views, key=lambda backup: backup.taken, reverse=True))


def backup_due(backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the next backup to take, None where there is none."""
    return next((backup for backup in backups if backup.state == "due"), None)


def newest_verified(backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the backup of the cluster that was taken last, None where there is none."""
    return next((backup for backup in backups if backup.state == "verified"), None)


def to_restore(name: str | None, backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the backup of a name if it can be restored, None otherwise."""
    return next((backup for backup in backups if backup.name == name and backup.state == "verified"), None)


def backup_trouble(name: str, backups: Iterable[SeenBackup]) -> str:
    """Return why an EtcdBackup cannot be restored, and what to do instead; "" where it can."""
    known = tuple(backups)
    if to_restore(name, known) is not None:
        return ""
    newest = newest_verified(known)
    instead = f"of another backup, such as {newest.name}" if newest is not None else "once a backup is Verified"
    remedy = f"delete this EtcdRestore, and make another one {instead}"
    backup = next((backup for backup in known if backup.name == name), None)
    if backup is None:
        return f"there is no EtcdBackup {name}: {remedy}"
    if backup.state == "foreign":
        return f"EtcdBackup {name} is of another cluster: {backup.said}: {remedy}"
    wait = "wait until it is verified, or " if backup.state == "due" else ""
    return f"EtcdBackup {name} is not verified: {backup.said or 'it is not taken yet'}: {wait}{remedy}"


@dataclass(frozen=True)
class ClaimFiles:
    """Files of a cluster in one claim or bucket: those that nobody wants any more, and the others."""

    forget: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


def _seen(cluster: DeclaredCluster, backup: EtcdBackup, files: dict[str, ClaimFiles]) -> SeenBackup:
    status, meta = backup.status, backup.metadata
    store, _, file = (status.location or "").rpartition(":")
    state, message = _state(cluster, backup)
    there = files.get(store, ClaimFiles())
    return SeenBackup(
        meta.name,
        meta.uid,
        state,
        store if status.s3 is None else "",
        file,
        message,
        status.taken or "",
        before=meta.labels.get(BEFORE_LABEL, ""),
        scheduled=meta.labels.get(SCHEDULED_LABEL, ""),
        forget=there.forget,
        expected=tuple(name for name in there.expected if name != file),
        s3=status.s3,
        etcd=status.etcd_version or "",
        kubernetes=status.kubernetes_version or "",
        encryption=status.encryption,
        objects=status.objects,
        cluster=backup.spec.cluster,
        whole=status.phase == VERIFIED,
        clusters=status.clusters,
    )


def _state(cluster: DeclaredCluster, backup: EtcdBackup) -> tuple[BackupState, str]:
    own, of = cluster.metadata.labels.get(UID_LABEL, ""), backup.status.cluster_uid
    if backup.spec.cluster != cluster.metadata.name:
        return "foreign", f"it was taken of {backup.spec.cluster}"
    if of and own and of != own:
        return "foreign", f"it was taken of an earlier cluster {backup.spec.cluster}, which had other certificates"
    taken = next((snapshot for snapshot in cluster.status.snapshots if snapshot.uid == backup.metadata.uid), None)
    if taken is not None and taken.absent:
        return "failed", f"file {taken.file} is gone from {taken.store}"  # as its own status says a moment later
    if taken is not None and backup.status.phase != MISSING:
        return "verified", ""  # likewise
    message = next((condition.message for condition in backup.status.conditions if condition.status == "False"), "")
    return OF_PHASE.get(backup.status.phase, "blocked"), message


def _files(cluster: DeclaredCluster, backups: Iterable[EtcdBackup], now: datetime | None) -> dict[str, ClaimFiles]:
    """Return the files of a cluster by their claims or buckets; those without an EtcdBackup are wanted no more."""
    there = {backup.metadata.uid for backup in backups}
    kept = {(snapshot.store, snapshot.file) for snapshot in cluster.status.snapshots if snapshot.uid in there}
    files: dict[str, ClaimFiles] = {}
    for snapshot in cluster.status.snapshots:
        before = files.get(snapshot.store, ClaimFiles())
        if (snapshot.store, snapshot.file) in kept:
            files[snapshot.store] = ClaimFiles(before.forget, (*before.expected, snapshot.file))
        elif snapshot.locked_until is None or now is None or parse_time(snapshot.locked_until) <= now:
            files[snapshot.store] = ClaimFiles((*before.forget, snapshot.file), before.expected)
    return files


@dataclass(frozen=True)
class ScheduledTime:
    """What a schedule asks for at a moment.

    state: what is to be remembered of it, None where there is no schedule.
    due: the time for which a backup is to be made, None where there is none.  following: when to look again.
    """

    state: BackupScheduleState | None = None
    due: datetime | None = None
    following: datetime | None = None


def scheduled(policy: EtcdBackupPolicy, known: BackupScheduleState | None, now: datetime) -> ScheduledTime:
    """Return what a schedule asks for.

    Of several times that were missed, the last one counts. The times of another schedule begin anew, and so do those
    after a clock that went back: what was made for times to come was made by a clock that was wrong.

    Args:
        known: what was remembered of the schedule.  now: the caller's clock.
    """
    if policy.schedule is None:
        return ScheduledTime()
    time = times_of(policy.schedule, policy.time_zone, known, now)
    return replace(time, due=None) if policy.suspend else time


def times_of(schedule: str, zone: str, known: BackupScheduleState | None, now: datetime) -> ScheduledTime:
    """Return what a schedule in a time zone asks for; see `scheduled`."""
    cron = CronSchedule.of(schedule, zone)
    same = known is not None and (known.schedule, known.time_zone) == (schedule, zone)
    since = max(map(parse_time, filter(None, (known.since, known.last)))) if known is not None and same else None
    following = cron.after(now)
    if known is None or since is None or since > now:
        made = BackupScheduleState(schedule=schedule, time_zone=zone, since=stamp(now))
        return ScheduledTime(made, None, following)
    last = cron.until(now)
    return ScheduledTime(known, last if last > since else None, following)


INTERVALS = 2  # policy: one backup may fail, or take long, before anybody has to look
FRESH, STALE, NO_SCHEDULE, NOTHING_YET = "Fresh", "TooOld", "NoSchedule", "NoBackupYet"


@dataclass(frozen=True)
class BackupFreshness:
    """Whether the newest verified backup is as young as its schedule promises; None where nobody can tell yet.

    turns: when that may change although no object does.
    """

    fresh: bool | None
    reason: str
    message: str
    turns: datetime | None = None


def freshness(
    policy: EtcdBackupPolicy, known: BackupScheduleState | None, backups: Iterable[SeenBackup], now: datetime
) -> BackupFreshness:
    """Return whether backups are as young as a schedule promises.

    Args:
        known: what was remembered of the schedule.  now: the caller's clock.
    """
    if policy.schedule is None:
        remedy = "set spec.etcd.backup.schedule to have backups made"
        return BackupFreshness(None, NO_SCHEDULE, f"there is no schedule of backups: {remedy}")
    existing = tuple(backups)
    longest = INTERVALS * CronSchedule.of(policy.schedule, policy.time_zone).interval(now)
    newest = newest_verified(existing)
    taken = newest.taken if newest is not None else None
    since = taken or (known.since if known is not None else None)
    begun = min(parse_time(since), now) if since else now
    suspended = "; the schedule is suspended: set spec.etcd.backup.suspend to false" if policy.suspend else ""
    if now < begun + longest:
        if newest is None:
            message = f"no backup is verified yet{suspended}"
            return BackupFreshness(None, NOTHING_YET, message, begun + longest)
        return BackupFreshness(True, FRESH, f"{newest.name} was taken at {newest.taken}{suspended}", begun + longest)
    which = f"the newest verified backup, {newest.name}, is of {taken}" if newest is not None else "none is verified"
    late = f"{which}, and it should not be older than {longest.total_seconds() / 3600:.4g} h"
    return BackupFreshness(False, STALE, f"{late}{suspended or _why_late(existing)}")


def _why_late(backups: Iterable[SeenBackup]) -> str:
    """Return what keeps the schedule from a backup, and where to look."""
    own = sorted((backup for backup in backups if backup.scheduled), key=lambda backup: backup.scheduled, reverse=True)
    last = own[0] if own else None
    if last is None:
        return "; the schedule has made none: see the condition Progressing"
    why = f": {last.said}" if last.said else ""
    word = "failed" if last.state == "failed" else "is not taken yet"
    return f"; EtcdBackup {last.name} {word}{why}; see `kubectl describe etcdbackup {last.name}`"
