"""What an EtcdRestore does that makes a new cluster of another one's backup: it begins so, or says what it waits for.

Only a cluster that has nothing yet begins as a clone. One that an EtcdRestore finds deployed ends that EtcdRestore:
left there, it would begin after a deletion that nobody connects with it. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from harness.operator.api.cluster import PastOperation
from harness.operator.api.etcd import CLONE
from harness.operator.api.rules import variable
from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.due import Due, Situation, Wait, WaitReason, whole
from harness.operator.decide.observed import CLONE as OPERATION
from harness.operator.decide.observed import SUCCEEDED, Observed
from harness.operator.decide.restores import (
    CONFIRMS_ANOTHER,
    ETCD_VERSION,
    NOT_CONFIRMED,
    READY,
    AskedRestore,
    RestoreAnswer,
    RestoreRule,
    confirms_another,
    of_later_etcd,
    operation_runs,
    to_confirm,
    wish_refused,
    with_snapshot,
)
from harness.operator.decide.variables import key_name, numbers

DEPLOY = "deploy"  # the other operation with which a cluster begins
KUBERNETES_VERSION = variable("kubernetes")
ENCRYPTION_KEY = "cluster_encryption_key"
BEFORE = "make the EtcdRestore before the ClusterDeployment, or while its spec.paused is true"


def source_backup(situation: Situation) -> SeenBackup | None:
    """Return the backup that a clone is made of, None where it cannot be read."""
    asked = situation.observed.restore
    if asked is None:
        return None
    fits = (
        backup for backup in situation.observed.backups if (backup.name, backup.cluster) == (asked.backup, asked.source)
    )
    return next((backup for backup in fits if backup.whole), None)


def _adopts(asked: AskedRestore) -> str:
    if not asked.situation.desired.spec.adopt:
        return ""
    name = asked.situation.desired.wish.metadata.name
    return f"ClusterDeployment {name} is to adopt a cluster that is there, and a clone begins on machines without any"


def _of_etcd(asked: AskedRestore) -> str:
    if not asked.situation.desired.etcd_alone:
        return ""
    name, backup = asked.situation.desired.wish.metadata.name, asked.restore.backup
    return f"{name} is an EtcdCluster, which begins empty: delete this EtcdRestore of EtcdBackup {backup}"


def _shares(asked: AskedRestore) -> str:
    ref = asked.situation.desired.spec.etcd.cluster_ref
    if ref is None:
        return ""
    name = asked.situation.desired.wish.metadata.name
    text = f"{name} is to have its keys in EtcdCluster {ref.name}, and a clone begins with an etcd of its own"
    return f"{text}: delete this EtcdRestore, or the ClusterDeployment"


def _begun(asked: AskedRestore) -> str:
    """Return why the cluster is not one that begins."""
    world, name = asked.situation.observed, asked.situation.desired.wish.metadata.name
    if world.applied is not None:
        return f"cluster {name} is deployed, and nothing of it was changed: to have a clone, {BEFORE}"
    past = next((operation for operation in world.history if not operation.untouched), None)
    mine = asked.backup.uid if asked.backup is not None else ""
    if not world.touched or past is None or (past.operation, past.backup_uid) == (OPERATION, mine):
        return ""
    what = f"{past.operation} {past.sequence}" + (f" of EtcdBackup {past.backup}" if past.backup else "")
    return f"{what} has begun on the machines of {name}: delete the ClusterDeployment, and make both anew"


def _not_verified(asked: AskedRestore) -> str:
    name, source, known = asked.restore.backup, asked.restore.source, asked.situation.observed.backups
    if asked.backup is not None:
        return ""
    there = next((backup for backup in known if backup.name == name), None)
    usable = max(
        (backup for backup in known if backup.cluster == source and backup.whole),
        key=lambda backup: backup.taken,
        default=None,
    )
    other = f", such as {usable.name}" if usable is not None else ""
    remedy = f"delete this EtcdRestore, and make another one of a backup of {source} that is Verified{other}"
    if there is None:
        return f"there is no EtcdBackup {name}: {remedy}"
    if there.cluster != source:
        return f"EtcdBackup {name} is of cluster {there.cluster}, and spec.from is {source}: {remedy}"
    return f"EtcdBackup {name} is not verified: wait until it is, or {remedy}"


def _later_etcd(asked: AskedRestore) -> str:
    text = of_later_etcd(asked, str(asked.situation.desired.variables.get(ETCD_VERSION, "")))
    return f"{text}: give the ClusterDeployment a later one (spec.components.etcd)" if text else ""


def _other_kubernetes(asked: AskedRestore) -> str:
    """Return why the API server may not read the snapshot: it knows what the minor version before its own wrote."""
    own = str(asked.situation.desired.variables.get(KUBERNETES_VERSION, ""))
    of = asked.backup.kubernetes if asked.backup is not None else ""
    if not own or not of:
        return ""
    (major, minor), (its_major, its_minor) = numbers(own)[:2], numbers(of)[:2]
    if major == its_major and 0 <= minor - its_minor <= 1:
        return ""
    text = f"EtcdBackup {asked.restore.backup} was taken of Kubernetes {of}, and the cluster is to have {own}"
    return f"{text}: set spec.version to {its_major}.{its_minor}.x or {its_major}.{its_minor + 1}.x, and upgrade later"


def _other_key(asked: AskedRestore) -> str:
    """Return why nobody could read the Secrets of the snapshot."""
    of = asked.backup.encryption if asked.backup is not None else None
    own = key_name(str(asked.situation.desired.variables.get(ENCRYPTION_KEY, "")))
    if not of or of == own:
        return ""
    name = asked.restore.backup
    text = f"Secrets in EtcdBackup {name} are encrypted with {of}, and the cluster has {own or 'no key'}"
    return f"{text}: give it the key of {asked.restore.source} (spec.variables.{ENCRYPTION_KEY})"


def _not_confirmed(asked: AskedRestore) -> str:
    if asked.restore.confirm:
        return ""
    source, name = asked.restore.source, asked.situation.desired.wish.metadata.name
    text = f"{name} gets all that {source} had at {asked.taken}, its Secrets included, and nothing that is newer"
    return to_confirm(asked, text)


# The first row that applies says what is waited for, and without any the clone begins.
CLONE_RULES = (
    RestoreRule(WaitReason.NOT_ACCEPTED, "Waiting", wish_refused),
    RestoreRule("TargetIsEtcd", "Failed", _of_etcd),
    RestoreRule("EtcdElsewhere", "Failed", _shares),
    RestoreRule("TargetAdopts", "Failed", _adopts),
    RestoreRule("TargetBegun", "Failed", _begun),
    RestoreRule("BackupNotVerified", "Pending", _not_verified),
    RestoreRule("LaterEtcd", "Pending", _later_etcd),
    RestoreRule("OtherKubernetes", "Pending", _other_kubernetes),
    RestoreRule("OtherKey", "Pending", _other_key),
    RestoreRule(NOT_CONFIRMED, "Pending", _not_confirmed),
    RestoreRule(CONFIRMS_ANOTHER, "Pending", confirms_another),
    RestoreRule(WaitReason.OPERATION_RUNNING, "Waiting", operation_runs),
)


def clone_answer(situation: Situation) -> RestoreAnswer | None:
    """Return what the EtcdRestore that comes first does now; None where there is none that makes a clone."""
    restore = situation.observed.restore
    if restore is None or not restore.source:
        return None
    asked = AskedRestore(situation, restore, CLONE, source_backup(situation))
    for rule in CLONE_RULES:
        if message := rule.message(asked):
            return RestoreAnswer(rule.phase, rule.reason, message, CLONE, taken=asked.taken)
    return RestoreAnswer("Waiting", READY, "it begins now", CLONE, taken=asked.taken)


def clone(situation: Situation) -> Due | None:
    """Return the beginning of a cluster as a clone, or what is waited for before it begins in any way."""
    if situation.observed.applied is not None:
        return None
    asked, backup, answer = situation.observed.restore, source_backup(situation), clone_answer(situation)
    if asked is None or answer is None:
        return _after_failure(situation)
    why = f"EtcdRestore {asked.name}: a clone of {asked.source}" + (f" as of {answer.taken}" if answer.taken else "")
    due = whole(situation.desired, why, situation.desired.hosts, applies=True)
    if not answer.begins or backup is None:
        return replace(due, wait=answer.wait(asked.name))
    return with_snapshot(due, asked, replace(backup, forget=(), expected=()))  # files of its source


def failed_clone(observed: Observed) -> PastOperation | None:
    """Return the end of the clone with which the cluster was to begin and that failed, None where none has."""
    last = next((operation for operation in observed.history if operation.operation in (OPERATION, DEPLOY)), None)
    failed = last is not None and last.operation == OPERATION and last.outcome != SUCCEEDED
    return last if failed else None


def _after_failure(situation: Situation) -> Due | None:
    """Return the wait after a clone that failed: an empty cluster in its place is what nobody has asked for."""
    last = failed_clone(situation.observed)
    if last is None:
        return None
    text = f"clone {last.sequence} failed: {last.summary or last.outcome}"
    remedy = f"make another EtcdRestore of EtcdBackup {last.backup}, or delete the ClusterDeployment"
    due = whole(situation.desired, "a clone that failed", situation.desired.hosts, applies=True)
    return replace(due, wait=Wait(WaitReason.FAILED, f"{text}: {remedy}"))
