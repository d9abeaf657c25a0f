"""Which EtcdBackup is taken next: the one before an upgrade where the object wants that, else one asked for."""

from __future__ import annotations

from dataclasses import replace

from harness.operator.api.resources import RETRY_ANNOTATION
from harness.operator.decide.backups import SeenBackup, backup_due
from harness.operator.decide.due import Due, Situation, step
from harness.operator.decide.duties import upgrade
from harness.operator.decide.observed import SUCCEEDED
from harness.operator.decide.waits import Wait, WaitReason

BACKUP, UPGRADE = "backup", "upgrade"  # operations


def before_upgrade(found: Situation) -> Due | None:
    """Return the backup that an upgrade has to wait for; None where none is asked for, or it is taken."""
    if not found.desired.spec.etcd.backup.before_disruption or upgrade(found) is None:
        return None
    own = _before(found)
    return None if own is not None and own.state == "verified" else _due(found, "an upgrade follows", own)


def asked_for(found: Situation) -> Due | None:
    """Return the backup that somebody asks for, if it can be taken."""
    asked = backup_due(found.observed.backups)
    return _due(found, f"EtcdBackup {asked.name}", asked) if asked is not None else None


def not_made_yet(found: Situation) -> Wait | None:
    """Wait for the EtcdBackup: the controller of backups makes the one before an upgrade, and says what it lacks."""
    own = _before(found)
    if own is not None and own.state == "due":
        return None
    if own is not None and own.state == "failed":
        remedy = f"give annotation {RETRY_ANNOTATION} another value, or set spec.etcd.backup.beforeDisruption to false"
        return Wait(WaitReason.FAILED, f"the backup before the upgrade failed ({own.name}): {own.said}; {remedy}")
    said = f"EtcdBackup {own.name}: {own.said}" if own is not None else "an EtcdBackup of it is made"
    return Wait(WaitReason.BACKUP_FIRST, f"a backup comes before the upgrade; {said}")


def _due(found: Situation, why: str, backup: SeenBackup | None) -> Due:
    due = replace(step(found, why, ()), applies=found.applied)
    if backup is None or backup.state != "due":
        return due
    return replace(due, snapshot=backup.snapshot(), more={"backup": backup.uid})


def _before(found: Situation) -> SeenBackup | None:
    """Return the EtcdBackup that was made before the upgrade, and not before an earlier one."""
    past = (one for one in found.observed.history if (one.operation, one.outcome) == (UPGRADE, SUCCEEDED))
    since = next((one.ended or "" for one in past), "")
    own = (one for one in found.observed.backups if one.before == found.desired.digest)
    return next((one for one in own if one.state != "verified" or not one.taken or one.taken >= since), None)
