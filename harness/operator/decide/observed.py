"""What there is of a cluster: what was deployed, what runs, what ended, and which machines have trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from harness.kube.objects import parse_time, stamp
from harness.operator.api.addons import MISSING
from harness.operator.api.cluster import (
    HISTORY_LENGTH,
    AppliedState,
    AuthorityState,
    CurrentOperation,
    DeclaredCluster,
    DrillResult,
    DrillState,
    EtcdClientState,
    NetworksState,
    PastOperation,
    PendingApproval,
    UnsettledState,
)
from harness.operator.api.conditions import ANSWERING, EMPTY, INFRASTRUCTURE_READY, REACHABLE, SETTINGS_AS_APPLIED
from harness.operator.api.endpoint import EndpointState
from harness.operator.api.etcd import SUCCEEDED as RESTORED
from harness.operator.api.etcd import EtcdBackup, EtcdRestore, RestoreWay
from harness.operator.api.isolation import IsolationState
from harness.operator.api.machine import DeclaredMachine, MachineEtcd
from harness.operator.api.resources import LEAVING, REPLACE_ANNOTATION
from harness.operator.api.rules import ETCD_USERS as USERS_VARIABLE
from harness.operator.api.rules import Part
from harness.operator.decide.backups import SeenBackup, seen_backups

RECOVER, REBUILD, RESTORE, DEFRAGMENT = "recover", "rebuild", "restore", "defragment"
DRILL = "drill"  # the operation that restores a snapshot where no cluster is
CLONE = "clone"
# Of an EtcdCluster; its other operations are those of a ClusterDeployment.
DEPLOY_ETCD, UPGRADE_ETCD, RECONFIGURE_ETCD = "deploy-etcd", "upgrade-etcd", "reconfigure-etcd"
ETCD_USERS = "etcd-users"
RESTORING = (RECOVER, REBUILD, RESTORE, CLONE)  # operations that restore a snapshot of etcd
GIVING_UP = (RECOVER, REBUILD)  # those of them after which a cluster goes on without machines that it has lost
CLIENTS: Part = "clients"  # a part of an EtcdCluster: users of etcd
RESTORED_HALF = "etcd"  # a part of the cluster: its members may be of different times
CHANGES: Mapping[str, tuple[str, ...]] = {  # parts of the cluster that an operation changes
    "upgrade": ("version", "source", "settings"),
    "reconfigure": ("version", "source", "settings"),
    "addons": ("addons",),
    UPGRADE_ETCD: ("version", "source", "settings"),
    RECONFIGURE_ETCD: ("version", "source", "settings"),
    ETCD_USERS: (CLIENTS,),
    RESTORE: (RESTORED_HALF,),
}
SETTLES: Mapping[str, tuple[Part, ...]] = {  # parts that are as its variables say, on every machine, once it succeeded
    "upgrade": ("version", "source", "settings", "addons"),
    "reconfigure": ("version", "source", "settings", "addons"),
    "addons": ("addons",),
    UPGRADE_ETCD: ("version", "source", "settings"),
    RECONFIGURE_ETCD: ("version", "source", "settings"),
    ETCD_USERS: (CLIENTS,),
}
# What a snapshot has of another time than the machines, once it was restored: the cluster's own copies of settings.
OUTDATED: Mapping[str, tuple[Part, ...]] = {RESTORE: ("settings", "addons")}
LEAVE = frozenset({"remove-node", *GIVING_UP})  # operations whose machines leave
ANEW = frozenset({"deploy", DEPLOY_ETCD, "reset", CLONE})  # operations after which nothing from before is left
# By operation, the first plays of its playbook, which change nothing. One that fails while it drains leaves nodes as
# schedulable as they were.
PREFLIGHT = "Check the request before any machine changes"
CHECKPOINT = "Restore settings that an interrupted run left"  # what that run may have left half stays noted
SAME_VERSION = "Refuse a Kubernetes version that differs from the running one"
ETCD_ALONE = "Refuse an inventory without etcd"
KEY = "Refuse a key with which API servers could not read Secrets"
REMOVAL = ("Choose the machines that act", "Refuse to start if no machine can act", "Refuse to remove etcd's majority")
SKEW = ("Refuse forbidden version skew", "Refuse forbidden versions of external etcd, if there is one")
CHECKS: Mapping[str, tuple[str, ...]] = {
    "deploy": (PREFLIGHT, CHECKPOINT, SAME_VERSION),
    "scale": (PREFLIGHT, CHECKPOINT, SAME_VERSION),
    "upgrade": (PREFLIGHT, CHECKPOINT, *SKEW, "Fetch new binaries and images"),
    "reconfigure": (PREFLIGHT, CHECKPOINT, "Refuse to change versions", KEY, "Refuse settings that cannot work"),
    "remove-node": ("Check the request", *REMOVAL, "Drain the nodes"),
    RESTORE: (CHECKPOINT,),
    RECOVER: ("Group lost and remaining machines",),
    CLONE: (PREFLIGHT, ETCD_ALONE, "Refuse to begin a clone without all that it is made of"),
    REBUILD: (PREFLIGHT, ETCD_ALONE, SAME_VERSION, "Refuse to begin without all that the control plane is made of"),
    DEPLOY_ETCD: (PREFLIGHT, ETCD_ALONE),
    ETCD_USERS: (PREFLIGHT, ETCD_ALONE),
    RECONFIGURE_ETCD: (PREFLIGHT, ETCD_ALONE),
    UPGRADE_ETCD: (PREFLIGHT, ETCD_ALONE, "Refuse forbidden versions of etcd, and fetch the new one"),
}


def unsettled_after(
    before: UnsettledState | None, applied: AppliedState | None, operation: CurrentOperation, outcome: str
) -> UnsettledState | None:
    """Return what may be done half after the end of an operation that touched machines; None: nothing.

    Args:
        before: what was so when it began.  applied: what was applied then.
    """
    old, name, after = before or UnsettledState(), operation.operation, operation.applies
    outdated: tuple[Part, ...] = OUTDATED.get(name, ())
    if name in (RESTORE, RECOVER) and operation.snapshot is not None and _has_users(after):
        outdated = (*outdated, CLIENTS)  # etcd has the users of another time
    if outcome == "succeeded":
        settled = (RESTORED_HALF,) if name in RESTORING and operation.snapshot is not None else SETTLES.get(name, ())
        there = (*(after.machines if after is not None else ()), *operation.machines)
        left = UnsettledState(
            parts=(*(p for p in old.parts if p not in (*settled, *outdated)), *outdated),
            hosts=tuple(host for host in old.hosts if host.machine not in there),
            leaving=tuple(machine for machine in old.leaving if machine not in operation.machines),
            lost=tuple(machine for machine in old.lost if machine not in operation.machines),
            why=old.why or f"{name} {operation.sequence}",
        )
        return left if name not in ANEW and (left.parts or left.hosts or left.leaving) else None
    known = {host.machine for host in (*old.hosts, *(applied.hosts if applied is not None else ()))}
    joined = [host for host in (after.hosts if after is not None else ()) if host.machine not in known]
    made = UnsettledState(
        parts=tuple(dict.fromkeys((*old.parts, *CHANGES.get(name, ())))),
        hosts=(*old.hosts, *joined),
        leaving=tuple(dict.fromkeys((*old.leaving, *(operation.machines if name in LEAVE else ())))),
        lost=tuple(dict.fromkeys((*old.lost, *(operation.machines if name in GIVING_UP else ())))),
        why=f"{name} {operation.sequence} {outcome}",
    )
    return made if made.parts or made.hosts or made.leaving else None


def _has_users(applied: AppliedState | None) -> bool:
    return applied is not None and bool(applied.variables.get(USERS_VARIABLE))


RESTORE_FAILED = "Failed"  # the phase of an EtcdRestore
SUCCEEDED, FAILED, INTERRUPTED, CANCELLED = "succeeded", "failed", "interrupted", "cancelled"
ADOPT = "adopt"  # the operation that changes nothing unless all is as wished
LOST = "Lost"  # the reason with which the infrastructure says that a machine does not come back
RESET = "reset"  # the operation after which nothing is deployed any more
CERTIFICATES = "certificates"  # the operation that renews them


@dataclass(frozen=True)
class SeenRestore:
    """An EtcdRestore that has not ended.

    confirm: the time of the snapshot, as somebody has confirmed it.  way: that it takes, once that was known.
    source: the cluster that it makes a clone of, "" for none.  clusters: those that somebody has confirmed.
    """

    name: str
    uid: str
    backup: str
    confirm: str = ""
    way: RestoreWay | None = None
    source: str = ""
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True)
class EtcdClient:
    """A cluster that has a prefix of an EtcdCluster.

    user: of etcd, by the common name of the cluster's certificate.  leaving: it is being deleted, and without machines.
    deletes: its keys go with it.
    """

    cluster: str
    user: str
    prefix: str
    leaving: bool = False
    deletes: bool = False


@dataclass(frozen=True)
class Observed:
    """What there is.

    now: the caller's clock.  sequence: of the last operation that began.  running: the operation that runs.
    applied: what was deployed last.  history: the operations that ended, the latest first.
    backups: of etcd, those taken last first.  restore: the first EtcdRestore that has not ended.
    By the name of a Machine:
    trouble: why it cannot be used now.
    lost: how the infrastructure knows that it is gone.  lost_at: since when it is known to be so.
    ill: what says that it does not run, or answers nobody.  replace: why another one is to take its place.
    changed: what was changed on it since the last operation.
    missing: by add-on of the playbooks, what of it is gone since the last operation.
    deleted: Machines that are being deleted.  silent: deployed ones that do not answer.
    expires: of the first certificate that an operation can renew.
    etcd: what members of etcd say of themselves since the last operation.
    unsettled: what may be done half.  approval: what waits for an approval, and under which number.
    authority: the CAs that it is begun with; None where machines have made their own.
    networks: those that it has of a pool.  endpoint: the way to its API, as the infra cluster has it.
    etcd_client: what it has of an EtcdCluster.  clients: of an EtcdCluster, the clusters with a prefix of it.
    isolation: the NetworkPolicy around its machines, where it asks for one.
    taken: which name or address of it an older cluster has, "" for none.
    drill: what was done by the schedule of drills.  claims_in_use: by claim, which other cluster's operation has it.
    """

    now: datetime
    sequence: int = 0
    running: CurrentOperation | None = None
    applied: AppliedState | None = None
    history: tuple[PastOperation, ...] = ()
    trouble: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    lost_at: Mapping[str, datetime] = field(default_factory=dict)
    ill: Mapping[str, str] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    expires: datetime | None = None
    etcd: Mapping[str, MachineEtcd] = field(default_factory=dict)
    backups: tuple[SeenBackup, ...] = ()
    restore: SeenRestore | None = None
    unsettled: UnsettledState | None = None
    approval: PendingApproval | None = None
    authority: AuthorityState | None = None
    networks: NetworksState | None = None
    etcd_client: EtcdClientState | None = None
    clients: tuple[EtcdClient, ...] = ()
    endpoint: EndpointState | None = None
    isolation: IsolationState | None = None
    taken: str = ""
    drill: DrillState | None = None
    claims_in_use: Mapping[str, str] = field(default_factory=dict)

    @property
    def touched(self) -> bool:
        """Tell whether something is or may be deployed: a failed operation may have begun anything."""
        if self.applied is not None:
            return True
        last = next((past for past in self.history if not past.untouched), None)
        return last is not None and (last.operation, last.outcome) != (RESET, SUCCEEDED)


def observed(
    cluster: DeclaredCluster | None,
    machines: Iterable[DeclaredMachine],
    now: datetime,
    backups: Iterable[EtcdBackup] = (),
    restores: Iterable[EtcdRestore] = (),
) -> Observed:
    """Return what the objects of a cluster say; `cluster` is None before there is one.

    Args:
        backups, restores: those of the namespace.
    """
    claimed = tuple(machines)
    fresh = [machine for machine in claimed if _fresh(machine, cluster)]
    world = Observed(
        now,
        trouble=_said(claimed, trouble_of),
        lost=_said(claimed, lambda machine: _condition(machine, INFRASTRUCTURE_READY, LOST)),
        lost_at=_lost_at(claimed),
        ill=_said(claimed, lambda machine: _condition(machine, INFRASTRUCTURE_READY) or _condition(machine, ANSWERING)),
        replace=_said(claimed, lambda machine: machine.metadata.annotations.get(REPLACE_ANNOTATION, "")),
        changed=_said(fresh, lambda machine: _condition(machine, SETTINGS_AS_APPLIED, "Changed")),
        silent=frozenset(_said(claimed, lambda machine: _condition(machine, ANSWERING))),
        etcd={machine.metadata.name: machine.status.etcd for machine in fresh if machine.status.etcd is not None},
        expires=_expires(fresh),
        deleted=frozenset(m.metadata.name for m in claimed if m.metadata.deletion_timestamp is not None),
    )
    if cluster is None:
        return world
    of = cluster.status
    # What was seen before the last operation began may be there again once that has ended.
    since = (addon for addon in of.addons if of.operation is not None or addon.sequence == of.sequence)
    return replace(
        world,
        sequence=of.sequence,
        running=of.operation,
        applied=of.applied,
        history=of.history,
        unsettled=of.unsettled,
        approval=of.approval,
        networks=of.networks,
        etcd_client=of.etcd_client,
        endpoint=of.endpoint,
        isolation=of.isolation,
        drill=of.drill,
        authority=of.authority or (None if of.sequence else AuthorityState()),
        backups=seen_backups(cluster, backups, now),
        restore=_restore(cluster, restores),
        missing={addon.name: addon.message for addon in since if addon.reason == MISSING},
    )


def _expires(machines: Iterable[DeclaredMachine]) -> datetime | None:
    """Return when the first certificate expires that an operation can renew."""
    dates = (
        machine.status.certificates.first_expiry for machine in machines if machine.status.certificates is not None
    )
    return min((parse_time(date) for date in dates if date), default=None)


def _restore(cluster: DeclaredCluster, restores: Iterable[EtcdRestore]) -> SeenRestore | None:
    """Return the EtcdRestore that is to be carried out next: each is once."""
    over = {past.restore_uid for past in cluster.status.history if past.outcome == SUCCEEDED}
    own = [
        restore
        for restore in restores
        if restore.spec.cluster == cluster.metadata.name
        and restore.metadata.deletion_timestamp is None
        and restore.status.phase not in (RESTORED, RESTORE_FAILED)
        and restore.metadata.uid not in over
    ]
    first = min(
        own, key=lambda restore: (restore.metadata.creation_timestamp or "", restore.metadata.name), default=None
    )
    if first is None:
        return None
    asked, meta = first.spec, first.metadata
    return SeenRestore(
        meta.name,
        meta.uid,
        asked.backup,
        asked.confirm or "",
        first.status.way,
        source=asked.source or "",
        clusters=asked.confirm_clusters,
    )


def _fresh(machine: DeclaredMachine, cluster: DeclaredCluster | None) -> bool:
    """Tell whether a machine was looked into since the last operation ended: else what was found may be put right."""
    last = next(iter(cluster.status.history), None) if cluster is not None else None
    look = machine.status.settings
    return look is not None and last is not None and look.seen == f"{last.sequence}-{last.attempt}"


def trouble_of(machine: DeclaredMachine) -> str:
    """Return why a machine cannot be used now, "" where nothing speaks against it."""
    if machine.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if why := machine.metadata.annotations.get(LEAVING):
        return f"its claim is given up: {why}"
    known = {condition.type: condition for condition in machine.status.conditions}
    if INFRASTRUCTURE_READY not in known and machine.made:
        return "it is not made yet"
    infrastructure = known.get(INFRASTRUCTURE_READY)
    if infrastructure is not None and infrastructure.status == "False":  # Unknown says nothing of the machine
        return infrastructure.message or infrastructure.reason
    for kind in (REACHABLE, *((EMPTY,) if machine.made else ())):
        own_condition = known.get(kind)
        if own_condition is not None and own_condition.status != "True":
            return own_condition.message or own_condition.reason
    looked = REACHABLE in known or ANSWERING in known  # the second in the place of the first
    return "nobody has logged in to it yet" if machine.made and not looked else ""


def _said(machines: Iterable[DeclaredMachine], of: Callable[[DeclaredMachine], str]) -> dict[str, str]:
    """Return what is said of Machines, by their names; not those of which nothing is."""
    return {machine.metadata.name: text for machine in machines if (text := of(machine))}


def _condition(machine: DeclaredMachine, kind: str, reason: str | None = None) -> str:
    """Return the message of a condition that is False, for a reason or any; "" where it is not."""
    of_kind = next((c for c in machine.status.conditions if c.type == kind and reason in (None, c.reason)), None)
    return of_kind.message or of_kind.reason if of_kind is not None and of_kind.status == "False" else ""


def _lost_at(machines: Iterable[DeclaredMachine]) -> dict[str, datetime]:
    """Return since when Machines are known to be gone, by their names."""
    known = ((machine.metadata.name, c) for machine in machines for c in machine.status.conditions)
    gone = ((name, c) for name, c in known if (c.type, c.status, c.reason) == (INFRASTRUCTURE_READY, "False", LOST))
    return {name: parse_time(c.last_transition_time) for name, c in gone}


def begun(observed: Observed, operation: CurrentOperation) -> Observed:
    """Return what is observed once an operation has begun."""
    running = operation.model_copy(update={"started": stamp(observed.now)})
    return replace(observed, sequence=max(observed.sequence, operation.sequence), running=running)


def drilled(
    known: DrillState | None,
    operation: CurrentOperation,
    past: PastOperation,
    facts: Mapping[str, object] | None = None,
) -> DrillState | None:
    """Return what is remembered of drills after the end of an operation; the same if it was none.

    Args:
        facts: what its executor found out about the snapshot.
    """
    if operation.operation != DRILL or operation.snapshot is None:
        return known
    counted = {name: (facts or {}).get(name) for name in ("objects", "revision")}
    result = DrillResult.model_validate(
        {**past.model_dump(exclude={"log"}), "time": operation.snapshot.drill, **counted}
    )
    proven = {"proven": result} if past.outcome == SUCCEEDED else {}
    return (known or DrillState()).model_copy(update={"last": result, **proven})


def ended(observed: Observed, outcome: str = SUCCEEDED, blame: str | None = None) -> Observed:
    """Return what is observed once the operation that runs has ended. A failed one leaves what was applied before."""
    current = observed.running
    if current is None:
        return observed
    moment = stamp(observed.now)
    past = PastOperation(**current.model_dump(), outcome=outcome, blame=blame, ended=moment)
    taken = current.snapshot.uid if outcome == SUCCEEDED and current.snapshot is not None else None
    after = replace(
        observed,
        running=None,
        missing={},
        history=(past, *observed.history)[:HISTORY_LENGTH],
        unsettled=unsettled_after(observed.unsettled, observed.applied, current, outcome),
        backups=tuple(
            replace(backup, state="verified") if backup.uid == taken else backup for backup in observed.backups
        ),
        drill=drilled(observed.drill, current, past),
    )
    if outcome != SUCCEEDED:
        return after
    gone = frozenset(current.machines) if current.operation in LEAVE else frozenset()
    pending = observed.approval
    return replace(
        after,
        applied=None if current.operation == RESET else current.applies or observed.applied,
        approval=None if pending is not None and pending.digest == current.digest else pending,
        changed={} if SETTLES.get(current.operation) else observed.changed,
        expires=None if current.operation == CERTIFICATES else observed.expires,
        restore=None if current.operation in RESTORING else observed.restore,
        etcd={} if current.operation == DEFRAGMENT else observed.etcd,
        replace={name: why for name, why in observed.replace.items() if name not in gone},
    )
