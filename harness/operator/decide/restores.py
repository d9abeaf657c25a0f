"""Restores of etcd: named for a loss that there is, confirmed for that loss and that backup alone; pure.

A field lies in an object for as long as nobody edits it, and tools write old objects again. So `spec.etcd.restoreFrom`
only names a backup. What begins a restore is an annotation whose value the status gives once the loss is known: it
follows from the cluster, from which machines are lost and since when, and from the EtcdBackup. After another loss, or
of another EtcdBackup of the same name, it is another one. Nothing has to be remembered for that.
"""

from __future__ import annotations

from dataclasses import replace

from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import stamp
from harness.operator.api.resources import RESTORE_ANNOTATION
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS
from harness.operator.decide.backups import (
    RESTORE_FIELD,
    SeenBackup,
    backup_mistake,
    newest_verified,
    to_restore,
)
from harness.operator.decide.desired import digest_of
from harness.operator.decide.due import Due, Situation, StepChange, Wait, WaitReason, step
from harness.operator.decide.membership import dead, majority_in_doubt


def restore_trouble(found: Situation) -> tuple[str, str] | None:
    """Return reason and message of why an EtcdRestore is not carried out; None where it can be, or there is none.

    It goes back in time, so every member has to take part.
    """
    observed, asked = found.observed, found.observed.restore
    if asked is None:
        return None
    if (wrong := backup_mistake(asked.backup, observed.backups)) is not None:
        return (
            "BackupNotVerified",
            f"{wrong.message}: make another EtcdRestore, of a backup that is Verified, and delete this one",
        )
    backup = to_restore(asked.backup, observed.backups)
    taken = backup.taken if backup is not None else ""
    if not taken or asked.confirm != taken:
        return "NotConfirmed", f"what was written since {taken} would be lost: set spec.confirm to {taken}"
    down = {**observed.ill, **observed.lost}
    said = [f"{host.machine}: {down[host.machine]}" for host in found.who.members if host.machine in down]
    if said:
        return "MachinesDown", f"etcd goes back only while every machine is well ({'; '.join(said)})"
    return None


def restore(found: Situation) -> Due | None:
    """Return the restore that an EtcdRestore asks for, once it is confirmed and every machine is well."""
    asked = found.observed.restore
    backup = to_restore(asked.backup, found.observed.backups) if asked is not None else None
    if asked is None or backup is None or restore_trouble(found) is not None:
        return None
    extra = {"cluster_etcd_restore_confirmation": backup.taken}
    due = step(found, f"EtcdRestore {asked.name}: back to {backup.taken}", found.who.members, StepChange(extra=extra))
    applies = due.applies.model_copy(update={"restored": backup.name}) if due.applies is not None else None
    snapshot = backup.snapshot().model_copy(update={"restore": asked.uid})
    more = {"backup": backup.uid, "restore": asked.uid}
    return replace(due, applies=applies, snapshot=snapshot, once=True, more=more)


CONFIRMATION_DIGITS = 8  # of a digest: nobody types it by chance, and a person can compare it
CA_LOST = "all {} are lost, and the cluster's CA with them: delete the object and make another cluster"
NOT_LOST = (
    f"remove the field, and name the backup when the condition Progressing says {WaitReason.RESTORE_NOT_NAMED}; a "
    "cluster that is well goes back by an EtcdRestore"
)


def restore_mistake(found: Situation) -> SpecMistake | None:
    """Return why an object must not name an EtcdBackup to restore; None where it names none, or may.

    The one that was restored last may stay named: it does nothing until somebody confirms it for another loss.
    """
    name, observed = found.desired.spec.etcd.restore_from, found.observed
    if name is None or found.desired.deleting or name == observed.restored:
        return None
    if observed.applied is None:
        return SpecMistake(RESTORE_FIELD, "nothing is deployed yet, so nothing can be restored", "remove the field")
    if (wrong := backup_mistake(name, observed.backups)) is not None:
        return wrong
    if majority_in_doubt(found.desired, observed, found.who):
        return None
    return SpecMistake(RESTORE_FIELD, "nothing is lost: etcd has its majority, and a control plane is left", NOT_LOST)


def restorable(found: Situation) -> Wait | None:
    """Wait until a person has named the backup to restore, and has confirmed it for this loss."""
    gone = dead(found.desired, found.observed, found.who)
    left = [host for host in found.who.members if host not in gone]
    for group, what in ((GROUPS[CONTROL_PLANE], "control planes"), (GROUPS[ETCD], "etcd members")):
        if not any(group in host.groups for host in left):
            return Wait(WaitReason.NOT_RECOVERABLE, CA_LOST.format(what))
    name, backups = found.desired.spec.etcd.restore_from, found.observed.backups
    lost = f"etcd has lost its majority ({', '.join(host.machine for host in gone)})"
    newest = newest_verified(backups)
    if name is None:
        which = f"the newest verified one is {newest.name}" if newest is not None else "there is no verified one"
        return Wait(WaitReason.RESTORE_NOT_NAMED, f"{lost}: name the EtcdBackup to restore in {RESTORE_FIELD}; {which}")
    backup = to_restore(name, backups)
    if backup is None:
        mistake = backup_mistake(name, backups)
        return Wait(WaitReason.RESTORE_NOT_NAMED, f"{lost}; {mistake.text if mistake is not None else name}")
    wanted, said = confirmation_of(found, backup), found.desired.wish.metadata.annotations.get(RESTORE_ANNOTATION)
    if said == wanted:
        return None
    when = f" of {backup.taken}" if backup.taken else ""
    newer = f"; {newest.name} is newer" if newest is not None and newest.uid != backup.uid else ""
    older = f"; {said} confirms another restore" if said else ""
    text = f"{lost}: EtcdBackup {name}{when} would be restored, and what was written since is lost{newer}; "
    text += f"confirm it with annotation {RESTORE_ANNOTATION}={wanted}{older}"
    return Wait(WaitReason.RESTORE_NOT_CONFIRMED, text, confirmation=wanted)


def confirmation_of(found: Situation, backup: SeenBackup) -> str:
    """Return what the annotation has to say for a backup to be restored after the loss that there is."""
    observed = found.observed
    since = {**observed.silent_at, **observed.lost_at}
    gone = [host.machine for host in dead(found.desired, observed, found.who)]
    lost = {machine: stamp(since[machine]) if machine in since else "" for machine in gone}
    facts = {"cluster": found.desired.wish.metadata.uid, "lost": lost, "backup": backup.uid}
    return digest_of(facts)[:CONFIRMATION_DIGITS]
