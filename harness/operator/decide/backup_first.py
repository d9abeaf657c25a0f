"""Which EtcdBackup is taken next: the one before an upgrade where the object wants that, else one asked for."""

from __future__ import annotations

from dataclasses import replace

from harness.operator.api.resources import RETRY_ANNOTATION
from harness.operator.api.snapshots import SnapshotPlace
from harness.operator.decide.backups import SeenBackup, backup_due, digest_with
from harness.operator.decide.changes import Due
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed
from harness.operator.decide.waits import Wait, WaitReason

BACKUP = "backup"  # the operation


def before_upgrade(desired: Desired, observed: Observed) -> Due | None:
    """Return the backup that an upgrade has to wait for; None where none is asked for, or it is taken."""
    if not desired.spec.etcd.backup.before_disruption:
        return None
    found = _before(desired, observed)
    return None if found is not None and found.state == "verified" else Due("an upgrade follows", ())


def asked_for(desired: Desired, observed: Observed) -> Due | None:
    """Return the backup that somebody asks for, if it can be taken."""
    found = backup_due(observed.backups)
    return Due(f"EtcdBackup {found.name}", ()) if found is not None else None


def backup_of(desired: Desired, observed: Observed) -> SeenBackup | None:
    """Return the EtcdBackup that an operation `backup` takes now."""
    own = _before(desired, observed)
    return own if own is not None and own.state == "due" else backup_due(observed.backups)


def not_made_yet(desired: Desired, observed: Observed) -> Wait | None:
    """Wait for the EtcdBackup: the controller of backups makes the one before an upgrade, and says what it lacks."""
    if backup_of(desired, observed) is not None:
        return None
    own = _before(desired, observed)
    if own is not None and own.state == "failed":
        remedy = f"give annotation {RETRY_ANNOTATION} another value, or set spec.etcd.backup.beforeDisruption to false"
        return Wait(WaitReason.FAILED, f"the backup before the upgrade failed ({own.name}): {own.said}; {remedy}")
    said = f"EtcdBackup {own.name}: {own.said}" if own is not None else "an EtcdBackup of it is made"
    return Wait(WaitReason.BACKUP_FIRST, f"a backup comes before the upgrade; {said}")


def with_backup(desired: Desired, place: SnapshotPlace | None) -> Desired:
    """Return a wish whose digest is that of one backup, too: its failure is no other one's."""
    return desired if place is None else replace(desired, digest=digest_with(desired.digest, place))


def _before(desired: Desired, observed: Observed) -> SeenBackup | None:
    return next((one for one in observed.backups if one.before == desired.digest), None)
