"""The status of an EtcdBackup, from its cluster's and from its claim; pure. What has failed stays so.

What was taken is there for as long as its claim has the volume that it was put into.
"""

from __future__ import annotations

from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import deleting, dig, stamp
from harness.operator.api.conditions import FAILED, new, with_conditions
from harness.operator.api.etcdbackup import MISSING, VERIFIED
from harness.operator.api.snapshots import SNAPSHOT_FILE, SnapshotFacts
from harness.operator.controllers.backup_claim import NO_DESTINATION, ClaimTrouble, missing
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.decide.retries import given_up
from harness.operator.execute.inputs import BACKUP

FINAL = frozenset({"Verified", "Failed", MISSING})
READ_BACK = "the snapshot was read back: it is what etcd wrote"
FACTS = tuple(field.alias or name for name, field in SnapshotFacts.model_fields.items())


def claim_of(backup: Json, deployment: Json | None) -> str | None:
    """Return the claim that a snapshot is put into, None where nobody says it."""
    default = dig(deployment, "spec", "etcd", "backup", "destination", "claim")
    claim: str | None = dig(backup, "spec", "destination", "claim") or default
    return claim


def kept_status(backup: Json, claim: Json | None, moment: datetime) -> Json:
    """Return the status that an EtcdBackup should have once it was taken: whether its snapshot may still be there.

    Args:
        claim: that it was put into, None where there is none of the name.
    """
    before: Json = backup["status"]
    name, volume = str(before.get("location", "")).partition(":")[0], before.get("volume")
    if why := missing(name, volume, claim):
        return _said(before, MISSING, MISSING, why, moment)
    after = {**before, "volume": dig(claim, "spec", "volumeName")}
    if before["phase"] == MISSING:
        return _said(after, "Verified", "ReadBack", READ_BACK, moment, verified=True)
    return {name: value for name, value in after.items() if value is not None}


def backup_status(backup: Json, view: DeclaredView | None, trouble: ClaimTrouble | None, moment: datetime) -> Json:
    """Return the status that an EtcdBackup should have.

    Args:
        view: of its cluster, None where there is no ClusterDeployment.
        trouble: why its claim cannot be mounted, None where nothing speaks against it.
    """
    before: Json = backup.get("status") or {}
    uid = backup["metadata"]["uid"]
    if before.get("phase") in FINAL:
        return before
    for taken in dig(view.cluster, "status", "snapshots") or () if view is not None else ():
        if taken["uid"] == uid and view is not None:
            return _taken(before, taken, view, moment)
    running = view.observed.running if view is not None else None
    if running is not None and running.snapshot is not None and running.snapshot.uid == uid:
        return _said(before, "Running", "Running", f"Job {running.job} takes it", moment)
    obstacle = _obstacle(backup, view) or trouble
    claim = claim_of(backup, view.deployment if view is not None else None)
    if obstacle is None and claim is None:
        obstacle = NO_DESTINATION
    if obstacle is not None:
        return _said({**before, "location": None}, "Pending", obstacle.reason, obstacle.message, moment)
    file = SNAPSHOT_FILE.format(cluster=backup["spec"]["cluster"], backup=backup["metadata"]["name"])
    return _waiting({**before, "location": f"{claim}:{file}"}, view, moment, uid)


def _obstacle(backup: Json, view: DeclaredView | None) -> ClaimTrouble | None:
    """Return why its cluster cannot be backed up."""
    name = backup["spec"]["cluster"]
    if view is None or deleting(view.deployment):
        gone = "is being deleted" if view is not None else "does not exist"
        return ClaimTrouble("ClusterNotFound", f"ClusterDeployment {name} {gone}: delete this EtcdBackup, or create it")
    if view.desired is None or view.observed.applied is None:
        return ClaimTrouble("NotDeployed", f"cluster {name} is not deployed yet: the backup follows once it is")
    return None


def _waiting(before: Json, view: DeclaredView | None, moment: datetime, uid: str) -> Json:
    """Return the status of one that can be taken, or has failed."""
    tries = view.observed.history if view is not None else ()
    last = next((one for one in tries if (one.operation, one.backup_uid) == (BACKUP, uid)), None)
    if last is None or view is None or view.desired is None:
        message = "it is taken once nothing else is to do for the cluster, and no operation runs"
        return _said(before, "Waiting", "Waiting", message, moment)
    where = "".join((f" at task {last.task!r}" if last.task else "", f" on {last.host}" if last.host else ""))
    cause = f"{BACKUP} failed{where}: {last.summary or last.outcome}"
    if not given_up(last, view.desired):
        return _said(before, "Waiting", "RetryLater", f"{cause}; it is tried again", moment)
    message = "; ".join(filter(None, (cause, last.hint, "make another EtcdBackup to try again")))
    failed = _said(before, "Failed", "BackupFailed", message, moment)
    words = new(FAILED, True, "BackupFailed", message, moment, None)
    return {**failed, "conditions": with_conditions(failed["conditions"], words)}


def _taken(before: Json, taken: Json, view: DeclaredView, moment: datetime) -> Json:
    facts = {name: taken[name] for name in FACTS if name in taken}
    place = {"location": f"{taken['claim']}:{taken['file']}", "verified": stamp(moment)}
    whose = {"clusterUid": view.deployment["metadata"]["uid"]}
    return _said({**before, **facts, **place, **whose}, "Verified", "ReadBack", READ_BACK, moment, verified=True)


def _said(before: Json, phase: str, reason: str, message: str, moment: datetime, *, verified: bool = False) -> Json:
    words = new(VERIFIED, verified, reason, message, moment, None)
    made = {**before, "phase": phase, "conditions": with_conditions(before.get("conditions") or [], words)}
    return {name: value for name, value in made.items() if value is not None}
