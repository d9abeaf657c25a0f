"""The EtcdBackups of a cluster as decisions see them: what is to be taken, and what can be restored; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harness.kube.kinds.page import SpecMistake
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.etcd import MISSING, EtcdBackup, OperationSnapshot
from harness.operator.api.resources import BEFORE_LABEL, UID_LABEL

BackupState = Literal["due", "blocked", "verified", "failed", "foreign"]
OF_PHASE: dict[str | None, BackupState] = {
    "Waiting": "due",
    "Running": "due",
    "Verified": "verified",
    "Failed": "failed",
    MISSING: "failed",
}
RESTORE_FIELD = "spec.etcd.restoreFrom"


@dataclass(frozen=True)
class SeenBackup:
    """One EtcdBackup.

    claim, file: where its snapshot lies, or will.  said: why it is not verified.  taken: when.
    before: digest of the wish before which the operator made it, "" for one that a person made.
    """

    name: str
    uid: str
    state: BackupState
    claim: str = ""
    file: str = ""
    said: str = ""
    taken: str = ""
    before: str = ""
    forget: tuple[str, ...] = ()

    def snapshot(self) -> OperationSnapshot:
        """Return what an operation on it is told."""
        place = {"backup": self.name, "uid": self.uid, "claim": self.claim, "file": self.file}
        return OperationSnapshot.model_validate({**place, "forget": self.forget})


def seen_backups(cluster: DeclaredCluster, backups: Iterable[EtcdBackup]) -> tuple[SeenBackup, ...]:
    """Return the EtcdBackups of a cluster's namespace as it sees them, those taken last first, then the oldest wish."""
    found = [one for one in backups if one.metadata.deletion_timestamp is None]
    lost = _without_backup(cluster, found)
    wishes = sorted(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
    seen = (_seen(cluster, one, lost) for one in wishes)
    return tuple(sorted(seen, key=lambda one: one.taken, reverse=True))


def backup_due(backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the next backup to take, None where there is none."""
    return next((one for one in backups if one.state == "due"), None)


def newest_verified(backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the backup of the cluster that was taken last, None where there is none."""
    return next((one for one in backups if one.state == "verified"), None)


def to_restore(name: str | None, backups: Iterable[SeenBackup]) -> SeenBackup | None:
    """Return the backup of a name if it can be restored, None otherwise."""
    return next((one for one in backups if one.name == name and one.state == "verified"), None)


def backup_mistake(name: str, backups: Iterable[SeenBackup]) -> SpecMistake | None:
    """Return why an EtcdBackup cannot be restored, with what to write instead; None where it can.

    Args:
        name: of `spec.etcd.restoreFrom`.
    """
    known = tuple(backups)
    if to_restore(name, known) is not None:
        return None
    newest = newest_verified(known)
    instead = f"name another one, such as {newest.name}" if newest is not None else "remove the field"
    found = next((one for one in known if one.name == name), None)
    if found is None:
        return SpecMistake(RESTORE_FIELD, f"there is no EtcdBackup {name}", instead)
    if found.state == "foreign":
        return SpecMistake(RESTORE_FIELD, f"EtcdBackup {name} is of another cluster: {found.said}", instead)
    wait = "wait until it is verified, or " if found.state == "due" else ""
    why = found.said or "it is not taken yet"
    return SpecMistake(RESTORE_FIELD, f"EtcdBackup {name} is not verified: {why}", f"{wait}{instead}")


def _seen(cluster: DeclaredCluster, backup: EtcdBackup, lost: dict[str, tuple[str, ...]]) -> SeenBackup:
    status, meta = backup.status, backup.metadata
    claim, _, file = (status.location or "").partition(":")
    state, said = _state(cluster, backup)
    before = meta.labels.get(BEFORE_LABEL, "")
    return SeenBackup(meta.name, meta.uid, state, claim, file, said, status.taken or "", before, lost.get(claim, ()))


def _state(cluster: DeclaredCluster, backup: EtcdBackup) -> tuple[BackupState, str]:
    own, of = cluster.metadata.labels.get(UID_LABEL, ""), backup.status.cluster_uid
    if backup.spec.cluster != cluster.metadata.name:
        return "foreign", f"it was taken of {backup.spec.cluster}"
    if of and own and of != own:
        return "foreign", f"it was taken of an earlier cluster {backup.spec.cluster}, which had other certificates"
    taken = any(one.uid == backup.metadata.uid for one in cluster.status.snapshots)
    if taken and backup.status.phase != MISSING:
        return "verified", ""  # its own status says so a moment later
    said = next((one.message for one in backup.status.conditions if one.status == "False"), "")
    return OF_PHASE.get(backup.status.phase, "blocked"), said


def _without_backup(cluster: DeclaredCluster, backups: Iterable[EtcdBackup]) -> dict[str, tuple[str, ...]]:
    """Return the files that nobody wants any more, by their claims: their EtcdBackups were deleted."""
    there = {one.metadata.uid for one in backups}
    wanted = {(one.claim, one.file) for one in cluster.status.snapshots if one.uid in there}
    left: dict[str, tuple[str, ...]] = {}
    for one in cluster.status.snapshots:
        if one.uid not in there and (one.claim, one.file) not in wanted:
            left[one.claim] = (*left.get(one.claim, ()), one.file)
    return left
