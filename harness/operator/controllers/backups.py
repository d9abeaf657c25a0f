"""EtcdBackups: whether they can be taken, what became of them, and those that the operator makes and prunes itself.

A backup is taken by an operation of its cluster, like any other. So there is one executor at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import condition, deleting, dig, parse_time, phase, stamp
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import PVC, STORAGE_CLASS
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.conditions import FAILED, PROVEN, PRUNED, new, with_conditions
from harness.operator.api.etcd import (
    MISSING,
    SNAPSHOT_FILE,
    VERIFIED,
    BackupDestination,
    SnapshotFacts,
    SnapshotPlace,
)
from harness.operator.api.resources import (
    BEFORE_LABEL,
    CLUSTER_LABEL,
    ETCD_BACKUP,
    SCHEDULED_LABEL,
)
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView, Workable, cluster_gone, follow_backups
from harness.operator.controllers.declarations import owner_of
from harness.operator.decide.backups import scheduled
from harness.operator.decide.desired import Desired, digest_of
from harness.operator.decide.drills import asked as drill_asked
from harness.operator.decide.drills import failure, success
from harness.operator.decide.due import Wait, WaitReason, given_up
from harness.operator.decide.observed import SUCCEEDED
from harness.operator.execute.inputs import BACKUP

CONSUMER = "WaitForFirstConsumer"  # a class whose claims are bound once a pod uses them


@dataclass(frozen=True)
class ClaimTrouble:
    """Why a snapshot cannot be put anywhere, as a condition says it; the message ends with what to do."""

    reason: str
    message: str


NO_DESTINATION = ClaimTrouble(
    "NoDestination",
    "nobody says where the snapshot is put: make another EtcdBackup with spec.destination, or set "
    "spec.etcd.backup.destination of the ClusterDeployment (spec.backup.destination of an EtcdCluster)",
)


def trouble_of(name: str, claim: Json | None, binding: str | None) -> ClaimTrouble | None:
    """Return why a claim cannot be mounted, None where nothing speaks against it.

    Args:
        claim: None where there is none of the name.
        binding: the binding mode of its class; None where that is not known.
    """
    if claim is None:
        remedy = "create it in this namespace"
        return ClaimTrouble("ClaimNotFound", f"there is no PersistentVolumeClaim {name}: {remedy}")
    if deleting(claim):
        return ClaimTrouble("ClaimNotBound", f"PersistentVolumeClaim {name} is being deleted: make another EtcdBackup")
    claim_phase = phase(claim) or "Pending"
    if claim_phase == "Bound" or (claim_phase == "Pending" and binding in (CONSUMER, None)):
        return None
    why = f"PersistentVolumeClaim {name} is {claim_phase}, and no pod can use it"
    return ClaimTrouble("ClaimNotBound", f"{why}: `kubectl describe pvc {name}` says what its volume lacks")


def missing(name: str, volume: str | None, claim: Json | None, absent: str = "") -> str:
    """Return why a snapshot is not in its claim any more, "" where nothing speaks against it.

    Args:
        absent: its file, if an executor did not find it in the claim.
        volume: the PersistentVolume that the snapshot was put into, None where that is not known.
        claim: the claim of the name, None where there is none.
    """
    remedy = "bind the claim to that volume again, or make another EtcdBackup"
    if claim is None:
        return f"PersistentVolumeClaim {name}, in which the snapshot lies, is gone: {remedy}"
    now = dig(claim, "spec", "volumeName")
    if volume and now != volume:
        other = f"volume {now}" if now else "no volume"
        return f"PersistentVolumeClaim {name} has {other}, and the snapshot lies in {volume}: {remedy}"
    if absent:
        return f"{absent} is gone from PersistentVolumeClaim {name}: put it back, or make another EtcdBackup"
    return ""


def class_of(claim: Json | None) -> str | None:
    """Return the StorageClass that a claim still waits for a volume of; None where it waits for none."""
    return None if claim is None or phase(claim) == "Bound" else dig(claim, "spec", "storageClassName")


def to_make(view: DeclaredView, own: Sequence[Json]) -> Json | None:
    """Return the EtcdBackup that an upgrade waits for, None where that is made already or none does.

    Its name is that of no other: the same wish may come again, and so may a cluster of the same name.
    """
    desired, verdict = view.desired, view.verdict
    if desired is None or not isinstance(verdict, Wait) or verdict.reason != WaitReason.BACKUP_FIRST:
        return None
    namespace, cluster = view.key
    number = view.observed.sequence + 1
    which = digest_of([view.deployment["metadata"]["uid"], desired.digest])[:6]
    name = f"{cluster}-before-{number}-{which}"
    if any(backup["metadata"]["name"] == name for backup in own):
        return None
    labels = {CLUSTER_LABEL: cluster, BEFORE_LABEL: desired.digest, LABEL_MANAGED: MANAGED_BY}
    return ETCD_BACKUP.manifest(name, namespace, labels=labels, spec={"cluster": cluster})


ENDED = (VERIFIED, "Failed", MISSING)
TIME_IN_NAME = "%Y%m%d-%H%M"  # of a schedule, in UTC: no two of its times have the same


def of_time(view: DeclaredView, time: datetime) -> Json:
    """Return the EtcdBackup of a schedule for one of its times; it has no other name, so nobody makes a second one."""
    namespace, cluster = view.key
    which = time.strftime(TIME_IN_NAME)
    labels = {CLUSTER_LABEL: cluster, SCHEDULED_LABEL: which, LABEL_MANAGED: MANAGED_BY}
    return ETCD_BACKUP.manifest(f"{cluster}-{which}", namespace, labels=labels, spec={"cluster": cluster})


def is_under_way(own: Sequence[Json]) -> bool:
    """Tell whether a backup that a schedule made has not ended: the next one waits for its end."""
    return any(SCHEDULED_LABEL in labels_of(backup) and dig(backup, "status", "phase") not in ENDED for backup in own)


def surplus(own: Sequence[Json], desired: Desired, moment: datetime, *asked: str) -> list[Json]:
    """Return the EtcdBackups to delete: of those that the operator made and that ended, the old and all but the latest.

    Those of an earlier cluster of the name outlive it: nothing makes them anew.

    Args:
        asked: those that an EtcdRestore names, or that are drilled.
    """
    policy = desired.spec.etcd.backup
    mine = [backup for backup in own if dig(backup, "status", "clusterUid") in (None, desired.wish.metadata.uid)]
    verified = [backup for backup in mine if dig(backup, "status", "phase") == VERIFIED]
    newest = max(verified, key=lambda backup: (str(dig(backup, "status", "taken")), _made(backup)), default=None)
    age = timedelta(hours=policy.max_age_hours) if policy.max_age_hours is not None else None
    gone: list[Json] = []
    for label in (BEFORE_LABEL, SCHEDULED_LABEL):
        made = sorted((backup for backup in mine if label in labels_of(backup)), key=_made, reverse=True)
        for ended in ENDED:
            some = [backup for backup in made if dig(backup, "status", "phase") == ended]
            gone += some[policy.keep :]
            gone += [backup for backup in some[: policy.keep] if age is not None and _age(backup, moment) > age]
    kept = {*asked, newest["metadata"]["name"] if newest is not None else None}
    return [backup for backup in gone if backup["metadata"]["name"] not in kept]


def _made(backup: Json) -> str:
    return str(backup["metadata"].get("creationTimestamp", ""))


def _age(backup: Json, moment: datetime) -> timedelta:
    since = dig(backup, "status", "taken") or _made(backup)
    return moment - parse_time(since) if since else timedelta()


def owners(backup: Json, view: DeclaredView) -> list[Json]:
    """Return the owners that an EtcdBackup should have: its ClusterDeployment, if it is to go with it."""
    policy = dig(view.deployment, "spec", "deletion", "backups") or "Keep"
    of, uid = dig(backup, "status", "clusterUid"), view.deployment["metadata"]["uid"]
    mine = owner_of(view.deployment)
    others = [reference for reference in backup["metadata"].get("ownerReferences") or [] if reference.get("uid") != uid]
    return [*others, mine] if policy == "Delete" and of in (None, uid) else others


FINAL = frozenset(ENDED)
READ_BACK = "the snapshot was read back: it is what etcd wrote"
FACTS = tuple(field.alias or name for name, field in SnapshotFacts.model_fields.items())


def destination_of(backup: Json, deployment: Json | None) -> BackupDestination | None:
    """Return where a snapshot is put, None where nobody says it."""
    default = dig(deployment, "spec", "etcd", "backup", "destination")
    destination = dig(backup, "spec", "destination") or default
    return BackupDestination.model_validate(destination) if destination else None


def kept_status(backup: Json, claim: Json | None, moment: datetime, *, absent: bool = False) -> Json:
    """Return the status that an EtcdBackup should have once it was taken: whether its snapshot may still be there.

    Args:
        absent: whether an executor did not find its file.
        claim: that it was put into, None where there is none of the name.
    """
    before: Json = backup["status"]
    (name, _, file), volume = str(before.get("location", "")).rpartition(":"), before.get("volume")
    of_bucket = f"{file} is gone from {name}: make another EtcdBackup" if absent else ""
    in_bucket = before.get("s3") is not None
    if why := of_bucket if in_bucket else missing(name, volume, claim, file if absent else ""):
        return _said(before, MISSING, MISSING, why, moment)
    after = {**before, "volume": None if in_bucket else dig(claim, "spec", "volumeName")}
    if before["phase"] == MISSING:
        return _said(after, "Verified", "ReadBack", READ_BACK, moment, verified=True)
    return {name: value for name, value in after.items() if value is not None}


def backup_status(backup: Json, view: DeclaredView | None, trouble: ClaimTrouble | None, moment: datetime) -> Json:
    """Return the status that an EtcdBackup should have.

    Args:
        view: of its cluster, None where nobody has declared one.
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
    where = destination_of(backup, view.deployment if view is not None else None)
    if obstacle is None and where is None:
        obstacle = NO_DESTINATION
    if obstacle is not None or where is None:
        told = obstacle or NO_DESTINATION
        return _said({**before, "location": None, "s3": None}, "Pending", told.reason, told.message, moment)
    file = SNAPSHOT_FILE.format(cluster=backup["spec"]["cluster"], backup=backup["metadata"]["name"])
    place = SnapshotPlace(backup=backup["metadata"]["name"], claim=where.claim, s3=where.s3, file=file)
    bucket = where.s3.model_dump(mode="json", by_alias=True, exclude_none=True) if where.s3 is not None else None
    return _waiting({**before, "location": f"{place.store}:{file}", "s3": bucket}, view, moment, uid)


def _obstacle(backup: Json, view: DeclaredView | None) -> ClaimTrouble | None:
    """Return why its cluster cannot be backed up."""
    name = backup["spec"]["cluster"]
    if view is None or deleting(view.deployment):
        text = f"{cluster_gone(name, view)}: delete this EtcdBackup, or create the cluster"
        return ClaimTrouble("ClusterNotFound", text)
    ref = view.wish.spec.etcd.cluster_ref if view.wish is not None else None
    if ref is not None:
        text = f"{name} has its keys in EtcdCluster {ref.name}: make an EtcdBackup with {ref.name} in spec.cluster"
        return ClaimTrouble("EtcdElsewhere", text)
    if view.desired is None or view.observed.applied is None:
        return ClaimTrouble("NotDeployed", f"cluster {name} is not deployed yet: the backup follows once it is")
    return None


def _waiting(before: Json, view: DeclaredView | None, moment: datetime, uid: str) -> Json:
    """Return the status of one that can be taken, or has failed."""
    tries = view.observed.history if view is not None else ()
    last = next(
        (operation for operation in tries if (operation.operation, operation.backup_uid) == (BACKUP, uid)), None
    )
    if last is None or view is None or view.desired is None:
        message = "it is taken once nothing else is to do for the cluster, and no operation runs"
        return _said(before, "Waiting", "Waiting", message, moment)
    where = "".join((f" at task {last.task!r}" if last.task else "", f" on {last.host}" if last.host else ""))
    cause = f"{BACKUP} failed{where}: {last.summary or last.outcome}"
    if not given_up(last, view.desired):
        remedy = f": {last.hint}" if last.reason and last.hint else ""
        return _said(before, "Waiting", last.reason or "RetryLater", f"{cause}; it is tried again{remedy}", moment)
    message = "; ".join(filter(None, (cause, last.hint, "make another EtcdBackup to try again")))
    reason = last.reason or "BackupFailed"
    failed = _said(before, "Failed", reason, message, moment)
    words = new(FAILED, True, reason, message, moment, None)
    return {**failed, "conditions": with_conditions(failed["conditions"], words)}


def _taken(before: Json, taken: Json, view: DeclaredView, moment: datetime) -> Json:
    facts = {name: taken[name] for name in FACTS if name in taken}
    store = SnapshotPlace.model_validate(taken).store
    place = {"location": f"{store}:{taken['file']}", "s3": taken.get("s3"), "verified": stamp(moment)}
    whose = {"clusterUid": view.deployment["metadata"]["uid"]}
    made = _said({**before, **facts, **place, **whose}, "Verified", "ReadBack", READ_BACK, moment, verified=True)
    locked = {
        snapshot["file"]: snapshot["lockedUntil"]
        for snapshot in dig(view.cluster, "status", "snapshots") or ()
        if "lockedUntil" in snapshot and SnapshotPlace.model_validate(snapshot).store == store
    }
    if not locked:
        return made
    files = ", ".join(f"{file} until {until}" for file, until in sorted(locked.items()))
    message = f"the bucket keeps what was to be deleted: {files}; the next backup after that deletes it"
    words = new(PRUNED, False, "ObjectLocked", message, moment, None)
    return {**made, "conditions": with_conditions(made["conditions"], words)}


def _said(before: Json, phase: str, reason: str, message: str, moment: datetime, *, verified: bool = False) -> Json:
    words = new(VERIFIED, verified, reason, message, moment, None)
    made = {**before, "phase": phase, "conditions": with_conditions(before.get("conditions") or [], words)}
    return {name: value for name, value in made.items() if value is not None}


def _is_absent(backup: Json, view: DeclaredView | None) -> bool:
    """Tell whether the last executor that looked did not find the file of a backup."""
    taken = dig(view.cluster, "status", "snapshots") or () if view is not None else ()
    return any(snapshot.get("absent", False) for snapshot in taken if snapshot["uid"] == backup["metadata"]["uid"])


def with_proof(backup: Json, status: Json, view: DeclaredView | None, moment: datetime) -> Json:
    """Return the status of an EtcdBackup with what the last drill of it has shown; the same where none has ended.

    A drill never changes where the backup is in its life: whoever has no better one may still try it.
    """
    state = view.observed.drill if view is not None else None
    if view is None or view.desired is None or state is None:
        return status
    uid = backup["metadata"]["uid"]
    results = (
        drill_result
        for drill_result in (state.last, state.proven)
        if drill_result is not None and drill_result.backup_uid == uid
    )
    last = next(results, None)
    if last is None or (last.outcome != SUCCEEDED and not given_up(last, view.desired)):
        return status
    proven = last.outcome == SUCCEEDED
    words = (True, "Proven", success(last)) if proven else (False, "DrillFailed", failure(last))
    proven_condition = new(PROVEN, *words, moment, None)
    made = {**status, "conditions": with_conditions(status.get("conditions") or [], proven_condition)}
    return {**made, "proven": last.ended} if proven else made


COMPONENT = "backups"


class Backups:
    """Reconciles the EtcdBackups of one cluster."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._looks = looks = ClusterLooks(context)
        self._claims = context.informers.of(PVC)
        self.controller = Controller("backups", self.reconcile)
        queue = self.controller.queue
        follow(looks.deployments, queue)
        follow(looks.clusters, queue)
        follow_backups(looks, queue)
        self._claims.subscribe(self._claim_changed)

    def _claim_changed(self, _: str, claim: Json) -> None:
        for backup in self._looks.backups.list(key_of(claim)[0]):
            if dig(backup, "status", "phase") != "Failed":
                self.controller.queue.add((key_of(claim)[0], backup["spec"]["cluster"]))

    def reconcile(self, key: Key) -> float | None:
        """Look at the EtcdBackups of one cluster."""
        view = self._looks.view(key)
        of_cluster = (backup for backup in self._looks.backups.list(key[0]) if backup["spec"]["cluster"] == key[1])
        own = [backup for backup in of_cluster if not deleting(backup)]
        made = to_make(view, own) if view is not None else None
        if made is not None and self._cluster.create_if_absent(ETCD_BACKUP, made):
            return 0.0
        for backup in own:
            self._settle(backup, view)
        if view is not None and view.desired is not None and not deleting(view.deployment):
            named = [view.observed.restore.backup] if view.observed.restore is not None else []
            running = view.observed.running
            named += [running.snapshot.backup] if running is not None and running.snapshot is not None else []
            for backup in surplus(own, view.desired, datetime.now(UTC), *named):
                self._cluster.delete(ETCD_BACKUP, backup["metadata"]["name"], key[0])
        return self._by_schedule(view, own)

    def _by_schedule(self, view: DeclaredView | None, own: Sequence[Json]) -> float | None:
        """Make the backup that a schedule asks for now, and note the drill; return the seconds until their next time.

        A backup is made before its time is remembered: whoever comes in between makes one of the same name, which is
        there.
        """
        workable = Workable.of(view)
        if workable is None or workable.mistakes or workable.observed.applied is None or deleting(workable.deployment):
            return None
        now, status = datetime.now(UTC), DeclaredCluster.model_validate(workable.cluster).status
        time = scheduled(workable.wish.spec.etcd.backup, status.backup_schedule, now)
        state = time.state
        if time.due is not None and state is not None and not is_under_way(own):
            self._cluster.create_if_absent(ETCD_BACKUP, of_time(workable, time.due))
            state = state.model_copy(update={"last": stamp(time.due)})
        drill, following = drill_asked(workable.wish.spec.etcd.backup, status.drill, now)
        if (state, drill) != (status.backup_schedule, status.drill):
            known = {"backupSchedule": state, "drill": drill}
            schedule_status = {
                name: value.model_dump(mode="json", by_alias=True, exclude_none=True)
                for name, value in known.items()
                if value is not None
            }
            rest = {name: value for name, value in workable.cluster["status"].items() if name not in known}
            self._looks.clusters.replace_status(workable.cluster, {**rest, **schedule_status})
        times = [moment for moment in (time.following, following) if moment is not None]
        return max((min(times) - now).total_seconds(), 0.0) if times else None

    def _settle(self, backup: Json, view: DeclaredView | None) -> None:
        """Bring one EtcdBackup's status, and what it is deleted with, to what they have to be."""
        if view is not None and not deleting(view.deployment):
            expected_owners = owners(backup, view)
            if expected_owners != (backup["metadata"].get("ownerReferences") or []):
                backup = self._looks.backups.merge(backup, {"metadata": {"ownerReferences": expected_owners}})
        before = dig(backup, "status", "phase")
        if before in (VERIFIED, MISSING):
            claim = str(dig(backup, "status", "location") or "").rpartition(":")[0]
            there = self._claims.get(key_of(backup)[0], claim)
            status = kept_status(backup, there, datetime.now(UTC), absent=_is_absent(backup, view))
        else:
            trouble = None if before in FINAL else self._trouble(backup, view)
            status = backup_status(backup, view, trouble, datetime.now(UTC))
        status = with_proof(backup, status, view, datetime.now(UTC)) if status.get("phase") in FINAL else status
        if status == (backup.get("status") or {}):
            return
        self._looks.backups.replace_status(backup, status)
        proof = condition({"status": status}, PROVEN) or {}
        if proof.get("status") == "False" and proof != condition(backup, PROVEN):
            self._events.warning(backup, "DrillFailed", proof["message"], component=COMPONENT)
        if status["phase"] != before and status["phase"] in FINAL:
            verified = status["phase"] == "Verified"
            say = self._events.normal if verified else self._events.warning
            why = (condition({"status": status}, VERIFIED) or {}).get("message", "")
            text = f"it lies in {status['location']}" if verified else why
            say(backup, f"Backup{status['phase']}", text, component=COMPONENT)

    def _trouble(self, backup: Json, view: DeclaredView | None) -> ClaimTrouble | None:
        deployment = view.deployment if view is not None else None
        where, namespace = destination_of(backup, deployment), key_of(backup)[0]
        if where is None or where.claim is None:
            return None
        name = where.claim
        claim = self._claims.get(namespace, name)
        return trouble_of(name, claim, self._binding(class_of(claim)))

    def _binding(self, name: str | None) -> str | None:
        """Return how claims of a class are bound; None where that is not to be known."""
        try:
            storage_class = self._cluster.get(STORAGE_CLASS, name) if name else None
        except ApiFailure as failure:
            if not failure.forbidden:
                raise
            return None
        return None if name is None else dig(storage_class, "volumeBindingMode") or "Immediate"


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Backups(context).controller)
