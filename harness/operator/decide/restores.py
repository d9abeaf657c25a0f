"""What an EtcdRestore does: it goes back once, the way that etcd's health asks for, or says what it waits for; pure.

An object lies there until somebody deletes it, and tools write old ones again. So the first health of etcd that is
known settles the way. If that changes before it began, it ends: what was confirmed for one loss answers no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.operator.api.cluster import AuthorityState
from harness.operator.api.etcd import ALL_LOST, CLONE, MAJORITY_LOST, ROLLBACK, RestorePhase, RestoreWay
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, ETCD_RESTORE, REPLACE_ANNOTATION
from harness.operator.api.rules import variable
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS
from harness.operator.decide.authority import is_wanted
from harness.operator.decide.backups import SeenBackup, backup_trouble, newest_verified, to_restore
from harness.operator.decide.due import Due, Situation, Wait, WaitReason, not_accepted, step
from harness.operator.decide.membership import dead, etcd_lost, majority_in_doubt, roles_lost
from harness.operator.decide.observed import CLONE as CLONING
from harness.operator.decide.observed import REBUILD, RECOVER, RESTORE, RESTORED_HALF, SeenRestore
from harness.operator.decide.variables import numbers

READY = "Waiting"  # for nothing but its turn
NOT_CONFIRMED, CONFIRMS_ANOTHER, OTHER_CLUSTERS = "NotConfirmed", "ConfirmsAnother", "ConfirmsOtherClusters"
GIVES_UP = (MAJORITY_LOST, ALL_LOST)
ETCD_VERSION = variable("etcd")
CONFIRMATION = "cluster_etcd_restore_confirmation"
OPERATIONS: dict[RestoreWay, str] = {ROLLBACK: RESTORE, MAJORITY_LOST: RECOVER, ALL_LOST: REBUILD, CLONE: CLONING}
CA_LOST = (
    "all control planes are lost, and no operation restores a snapshot on machines without the keys of the cluster's "
    "CAs. Start a machine from a disk that is left, with its name and address; or delete the object and make another "
    "cluster (docs/operator/when-everything-is-gone.md, 6)"
)
CAS_UNUSABLE = "all control planes are lost, and the cluster's CAs, which other machines need, cannot be used: {}"
PLANES_LOST = (
    "all control planes are lost, and no operation makes others with the keys that EtcdCluster {} has. Start a machine "
    "from a disk that is left, with its name and address; or delete the object and make another cluster"
)
MEMBERS_LOST = (
    "all etcd members are lost, and the control planes know no others. To have both made anew on other machines, shut "
    "the control planes down, and give them up: {}"
)
ALL_MEMBERS_LOST = (
    "all etcd members are lost, and no operation restores a snapshot on machines that were none. Start a machine from "
    "a disk that is left, with its name and address; or delete the object and make another one"
)


@dataclass(frozen=True)
class RestoreAnswer:
    """What an EtcdRestore does now, as its status says it.

    way: None while it is not known.  machines: whose data are replaced, or which are given up.
    """

    phase: RestorePhase
    reason: str
    message: str
    way: RestoreWay | None
    machines: tuple[str, ...] = ()
    taken: str = ""

    @property
    def begins(self) -> bool:
        """Tell whether it is carried out next."""
        return self.reason == READY

    def wait(self, name: str, before: str = "") -> Wait:
        """Return how a cluster waits for the EtcdRestore of a name; `before` says what it has lost."""
        confirms = self.reason in (NOT_CONFIRMED, CONFIRMS_ANOTHER, OTHER_CLUSTERS)
        reason = WaitReason.RESTORE_NOT_CONFIRMED if confirms else WaitReason.RESTORE_NOT_NAMED
        return Wait(reason, f"{before}EtcdRestore {name}: {self.message}")


@dataclass(frozen=True)
class AskedRestore:
    """An EtcdRestore in its situation. way: by the health of etcd.  backup: None where it cannot be restored."""

    situation: Situation
    restore: SeenRestore
    way: RestoreWay | None
    backup: SeenBackup | None

    @property
    def taken(self) -> str:
        """Return when the snapshot was taken, "" where nobody knows."""
        return self.backup.taken if self.backup is not None else ""

    def down(self) -> tuple[str, str]:
        """Return the machines that are not well, and what is said of each; without those that are given up."""
        world = self.situation.observed
        reasons, gone = {**world.ill, **world.lost}, _gone(self.situation) if self.way in GIVES_UP else ()
        names = [host.machine for host in self.situation.who.members if host.machine in {*reasons} - {*gone}]
        return " ".join(names), "; ".join(f"{name}: {reasons[name]}" for name in names)


_WELL_SINCE = "etcd had lost its majority, and has it again"
CHANGES: dict[tuple[RestoreWay, RestoreWay], str] = {  # of the way when an EtcdRestore was made, and of the one by now
    (ROLLBACK, MAJORITY_LOST): "etcd had its majority, and has lost it since",
    (ROLLBACK, ALL_LOST): "etcd had its majority, and all control planes were lost since",
    (MAJORITY_LOST, ALL_LOST): "a control plane was left, and none is any more",
    (ALL_LOST, MAJORITY_LOST): "no control plane was left, and one is there again",
    (MAJORITY_LOST, ROLLBACK): _WELL_SINCE,
    (ALL_LOST, ROLLBACK): _WELL_SINCE,
}


def _changed(asked: AskedRestore) -> str:
    before, half = asked.restore.way, _half_restored(asked.situation)
    if before is None or asked.way is None or asked.way == before:
        return ""
    text = f"when it was made, {CHANGES[before, asked.way]}"
    if half or asked.way != ROLLBACK:
        return f"{text}: {half or 'nothing was restored'}; {_how_to_restore(asked.situation)}"
    return f"{text}: nothing was restored, and nothing has to be; to go back in time, make another EtcdRestore"


def _half_restored(situation: Situation) -> str:
    """Return what a restore that failed has left, "" where none has."""
    half = situation.observed.unsettled
    if half is None or RESTORED_HALF not in half.parts:
        return ""
    return f"{half.why}, and members of etcd may be of different times"


def _not_confirmed(asked: AskedRestore) -> str:
    if asked.restore.confirm:
        return ""
    lost = f"; {', '.join(_gone(asked.situation))} are given up" if asked.way in GIVES_UP else ""
    newest = newest_verified(asked.situation.observed.backups)
    newer = f"; {newest.name} of {newest.taken} is newer" if newest is not None and newest.taken > asked.taken else ""
    return to_confirm(asked, f"what was written since {asked.taken} would be lost{lost}{newer}{_of_all(asked)}")


def sharing(situation: Situation) -> tuple[str, ...]:
    """Return the clusters that go back together with an EtcdCluster."""
    return tuple(client.cluster for client in situation.observed.clients if not client.leaving)


def _of_all(asked: AskedRestore) -> str:
    """Return which clusters go back, and which of them lose all that they have; "" where etcd is one cluster's."""
    names = sharing(asked.situation)
    known = asked.backup.clusters if asked.backup is not None else ()
    new = [name for name in names if name not in known]
    if not names:
        return ""
    lost = f"; {', '.join(new)} {'is' if len(new) == 1 else 'are'} not in the snapshot, and would lose everything"
    return f", by {', '.join(names)}{lost if new else ''}"


def _other_clusters(asked: AskedRestore) -> str:
    """Return which clusters somebody has to confirm besides, or has confirmed although they are none of these."""
    names, confirmed = sharing(asked.situation), asked.restore.clusters
    if set(names) == set(confirmed):
        return ""
    own = asked.situation.desired.wish.metadata.name
    if not names:
        text = f"spec.confirmClusters is {', '.join(confirmed)}, and etcd of {own} has no keys of other clusters"
    else:
        text = f"spec.confirmClusters is {', '.join(confirmed) or 'empty'}, and {', '.join(names)} would go back"
    return f"{text}{_of_all(asked) if names else ''}: to confirm that: {_confirming(asked)}"


def etcd_elsewhere(asked: AskedRestore) -> str:
    """Return that etcd of the cluster is an EtcdCluster, "" where it is not."""
    ref = asked.situation.desired.spec.etcd.cluster_ref
    if ref is None:
        return ""
    name = asked.situation.desired.wish.metadata.name
    return (
        f"{name} has its keys in EtcdCluster {ref.name}: delete this EtcdRestore, and name {ref.name} in spec.cluster"
    )


def confirms_another(asked: AskedRestore) -> str:
    """Return which snapshot is confirmed instead of the one that is restored, "" where it is that one."""
    confirmed = asked.restore.confirm
    if confirmed == asked.taken:
        return ""
    text = (
        f"spec.confirm is {confirmed}, and the snapshot of EtcdBackup {asked.restore.backup} was taken at {asked.taken}"
    )
    loss = "" if asked.way == CLONE else "what was written since then would be lost; "
    return f"{text}: {loss}to confirm that: {_confirming(asked)}"


def of_later_etcd(asked: AskedRestore, own: str) -> str:
    """Return why the cluster's etcd does not read the snapshot: it does not know what the next minor version writes.

    Args:
        own: its version, "" where nobody knows.
    """
    of = asked.backup.etcd if asked.backup else ""
    if not own or not of or numbers(of)[:2] <= numbers(own)[:2]:
        return ""
    name = asked.restore.backup
    return f"EtcdBackup {name} was taken of etcd {of}, and the cluster has {own}, which does not read it"


def _later_etcd(asked: AskedRestore) -> str:
    text = of_later_etcd(asked, str(asked.situation.applied.variables.get(ETCD_VERSION, "")))
    if not text:
        return ""
    field = "spec.version" if asked.situation.desired.etcd_alone else "spec.components.etcd"
    upgrade = f"upgrade etcd first ({field}), or " if asked.way == ROLLBACK else ""
    return f"{text}: delete this EtcdRestore, and {upgrade}name an earlier backup"


def _loss_not_known(asked: AskedRestore) -> str:
    if asked.way is not None:
        return ""
    names, reasons = asked.down()
    if set(names.split()) <= set(asked.situation.who.leaving):
        return f"machines that are given up count as lost once they answer no login ({reasons}): start them, or wait"
    remedy = f"start them, or give them up: {give_up(asked.situation, names)}"
    return f"nobody knows whether the majority of etcd is lost or only down ({reasons}): {remedy}"


def _machines_down(asked: AskedRestore) -> str:
    names, reasons = asked.down()
    if not reasons or asked.way == MAJORITY_LOST:  # who restores it passes over the others
        return ""
    if asked.way == ROLLBACK:
        return f"etcd goes back only while every machine is well ({reasons}): repair or remove these machines"
    remedy = f"repair them, or give them up: {give_up(asked.situation, names)}"
    return f"the machines that are left have to answer ({reasons}): {remedy}"


def operation_runs(asked: AskedRestore) -> str:
    """Return which operation has to end first, "" for none."""
    running = asked.situation.observed.running
    return f"{running.operation} {running.sequence} runs: it begins after its end" if running is not None else ""


def wish_refused(asked: AskedRestore) -> str:
    """Return what is wrong with the wish, "" where nothing is."""
    wait = not_accepted(asked.situation.desired, asked.situation.observed)
    kind = asked.situation.desired.wish.kind or CLUSTER_DEPLOYMENT.kind
    return f"its {kind} has mistakes: {wait.message}" if wait is not None else ""


@dataclass(frozen=True)
class RestoreRule:
    """Why an EtcdRestore is not carried out. message: "" where the rule does not apply."""

    reason: str
    phase: RestorePhase
    message: Callable[[AskedRestore], str]


# What an EtcdRestore goes by: the first row that applies says what it waits for, and without any it begins.
RULES = (
    RestoreRule(WaitReason.NOT_ACCEPTED, "Waiting", wish_refused),
    RestoreRule("EtcdElsewhere", "Failed", etcd_elsewhere),
    RestoreRule("SituationChanged", "Failed", _changed),
    RestoreRule(WaitReason.NOT_RECOVERABLE, "Pending", lambda asked: not_recoverable(asked.situation)),
    RestoreRule(
        "BackupNotVerified",
        "Pending",
        lambda asked: backup_trouble(asked.restore.backup, asked.situation.observed.backups),
    ),
    RestoreRule("LaterEtcd", "Pending", _later_etcd),
    RestoreRule(NOT_CONFIRMED, "Pending", _not_confirmed),
    RestoreRule(CONFIRMS_ANOTHER, "Pending", confirms_another),
    RestoreRule(OTHER_CLUSTERS, "Pending", _other_clusters),
    RestoreRule("LossNotKnown", "Pending", _loss_not_known),
    RestoreRule("MachinesDown", "Pending", _machines_down),
    RestoreRule(WaitReason.OPERATION_RUNNING, "Waiting", operation_runs),
)


def restore_answer(situation: Situation) -> RestoreAnswer | None:
    """Return what the EtcdRestore that comes first does now; None where there is none, or it makes a clone."""
    restore = situation.observed.restore
    if restore is None or restore.source or situation.observed.applied is None:
        return None
    asked = AskedRestore(situation, restore, way_of(situation), to_restore(restore.backup, situation.observed.backups))
    for rule in RULES:
        if message := rule.message(asked):
            way = asked.way if rule.reason != WaitReason.NOT_ACCEPTED else None  # a wish with mistakes says nothing yet
            return RestoreAnswer(rule.phase, rule.reason, message, restore.way or way, _about(asked), asked.taken)
    return RestoreAnswer("Waiting", READY, "it begins now", asked.way, _about(asked), asked.taken)


def way_of(situation: Situation) -> RestoreWay | None:
    """Return the way back by the health of etcd; None while nobody knows whether machines are lost or only down."""
    gone = dead(situation.desired, situation.observed, situation.who)
    if etcd_lost(situation.who, gone):
        return ALL_LOST if CONTROL_PLANE in roles_lost(situation.who, gone) else MAJORITY_LOST
    if CONTROL_PLANE in roles_lost(situation.who, gone):
        return ROLLBACK  # once there are control planes: etcd is whole
    return None if majority_in_doubt(situation.desired, situation.observed, situation.who) else ROLLBACK


def _about(asked: AskedRestore) -> tuple[str, ...]:
    if asked.way in GIVES_UP:
        return tuple(_gone(asked.situation))
    members = [host.machine for host in asked.situation.who.members if GROUPS[ETCD] in host.groups]
    return tuple(members) if asked.way == ROLLBACK else ()


def _gone(situation: Situation) -> list[str]:
    return [host.machine for host in dead(situation.desired, situation.observed, situation.who)]


def not_recoverable(situation: Situation) -> str:
    """Return why a cluster cannot be recovered from what it has lost; "" where it can."""
    gone = dead(situation.desired, situation.observed, situation.who)
    roles = roles_lost(situation.who, gone)
    ref = situation.desired.spec.etcd.cluster_ref
    if CONTROL_PLANE in roles and ref is not None:
        return PLANES_LOST.format(ref.name)
    if CONTROL_PLANE in roles:
        return authority_lost(situation.observed.authority if is_wanted(situation.desired.wish) else None)
    if ETCD not in roles:
        return ""
    if situation.desired.etcd_alone:
        return ALL_MEMBERS_LOST
    planes = [host.machine for host in situation.who.members if GROUPS[CONTROL_PLANE] in host.groups]
    return MEMBERS_LOST.format(give_up(situation, " ".join(planes)))


def authority_lost(state: AuthorityState | None) -> str:
    """Return why no control plane can be made anew once all are lost; "" where the CAs are there.

    Args:
        state: of the Cluster, None where its machines made the CAs.
    """
    if state is None:
        return CA_LOST
    return "" if state.usable else CAS_UNUSABLE.format(state.message)


def restore(situation: Situation) -> Due | None:
    """Return the restore that an EtcdRestore asks for on a cluster that is well; else what a failed one left."""
    answer, members = restore_answer(situation), situation.who.members
    if answer is not None and answer.begins and answer.way == ROLLBACK:
        asked = situation.observed.restore
        name = asked.name if asked is not None else ""
        due = step(situation, f"EtcdRestore {name}: back to {answer.taken}", members)
        return restoring(situation, replace(due, once=True))
    half = _half_restored(situation)
    if not half:
        return None
    held = f"EtcdRestore {answer.reason}: {answer.message}" if answer is not None else _how_to_restore(situation)
    return replace(step(situation, half, members), wait=Wait(WaitReason.FAILED, f"{half}: {held}"))


def restoring(situation: Situation, due: Due) -> Due:
    """Return what is due with the snapshot that the EtcdRestore names, confirmed; without it where there is none."""
    asked = situation.observed.restore
    backup = to_restore(asked.backup, situation.observed.backups) if asked is not None else None
    if asked is None or backup is None:
        return due
    return with_snapshot(due, asked, backup)


def with_snapshot(due: Due, asked: SeenRestore, backup: SeenBackup) -> Due:
    """Return what is due with the snapshot of an EtcdBackup, confirmed, for an EtcdRestore."""
    snapshot = backup.snapshot().model_copy(update={"restore": asked.uid})
    variables = {**due.variables, CONFIRMATION: backup.taken}
    return replace(due, variables=variables, snapshot=snapshot, more={"backup": backup.uid, "restore": asked.uid})


def restorable(situation: Situation) -> Wait | None:
    """Wait until an EtcdRestore names a backup for the loss of etcd's majority, and somebody has confirmed it."""
    if why := not_recoverable(situation):
        return Wait(WaitReason.NOT_RECOVERABLE, why)
    half, asked, answer = situation.observed.unsettled, situation.observed.restore, restore_answer(situation)
    gone = dead(situation.desired, situation.observed, situation.who)
    if not etcd_lost(situation.who, gone):
        return None  # control planes alone were lost, which have no data
    planes = CONTROL_PLANE in roles_lost(situation.who, gone)
    lost = (
        f"{'all control planes are lost' if planes else 'etcd has lost its majority'} ({', '.join(_gone(situation))})"
    )
    if half is not None and half.lost:
        lost += f"; {half.why}"
    if asked is None or answer is None:
        return Wait(WaitReason.RESTORE_NOT_NAMED, f"{lost}: {_how_to_restore(situation)}")
    return None if answer.begins else answer.wait(asked.name, f"{lost}: ")


def _how_to_restore(situation: Situation) -> str:
    """Return how somebody asks for a restore of the newest backup."""
    newest = newest_verified(situation.observed.backups)
    if newest is None:
        return "there is no EtcdBackup that is Verified, so nothing can be restored: start the machines again"
    name = situation.desired.wish.metadata.name
    meta = {"generateName": f"{name}-", "namespace": _namespace(situation)}
    spec: dict[str, object] = {"cluster": name, "backup": newest.name, "confirm": newest.taken}
    if names := sharing(situation):
        spec["confirmClusters"] = [*names]
    body = {"apiVersion": ETCD_RESTORE.api_version, "kind": ETCD_RESTORE.kind, "metadata": meta, "spec": spec}
    command = f"echo '{json.dumps(body)}' | kubectl create -f -"
    return (
        f"make an EtcdRestore, such as of the newest backup, which loses what was written since {newest.taken}: "
        f"`{command}`"
    )


def to_confirm(asked: AskedRestore, what: str) -> str:
    """Return how somebody confirms what an EtcdRestore comes to."""
    return f"{what}: to confirm that, set spec.confirm to {asked.taken}: {_confirming(asked)}"


def _confirming(asked: AskedRestore) -> str:
    """Return the command that confirms an EtcdRestore."""
    spec: dict[str, object] = {"confirm": asked.taken}
    if (asked.way != CLONE and sharing(asked.situation)) or asked.restore.clusters:
        spec["confirmClusters"] = [*sharing(asked.situation)]
    body = json.dumps({"spec": spec})
    return f"`kubectl patch ver {asked.restore.name} -n {_namespace(asked.situation)} --type=merge -p '{body}'`"


def give_up(situation: Situation, machines: str) -> str:
    """Return the command that gives machines up, whose names a space separates."""
    return f"`kubectl annotate vma {machines} -n {_namespace(situation)} {REPLACE_ANNOTATION}=lost`"


def _namespace(situation: Situation) -> str:
    return situation.desired.wish.metadata.namespace
