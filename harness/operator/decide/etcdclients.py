"""Clusters that share an EtcdCluster: whose prefix is whose, what each waits for, and which users etcd has; pure.

What a cluster has of an EtcdCluster stands in its Cluster's status before a user of etcd is made for it, and one
controller writes it. So those statuses are the ledger, and no prefix is in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.kube.failures import Json
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import condition, deleting, dig
from harness.operator.api.cluster import AppliedState, DeclaredCluster, EtcdClientState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.conditions import ETCD_HEALTHY, PROGRESSING, READY
from harness.operator.api.etcd import SAME_ETCD
from harness.operator.api.resources import ETCD_CLUSTER
from harness.operator.api.rules import ETCD_DELETED, ETCD_ENDPOINTS, ETCD_PREFIX, ETCD_USERS
from harness.operator.decide.desired import Desired, differing
from harness.operator.decide.due import Due, Situation, StepChange, Wait, WaitReason, step
from harness.operator.decide.etcdclusters import endpoints_of
from harness.operator.decide.observed import CLIENTS, RECOVER, RESTORE, SUCCEEDED, EtcdClient, Observed
from harness.operator.decide.observed import ETCD_USERS as USERS_OPERATION
from harness.operator.decide.variables import with_parts

UID_LETTERS = 8  # of a UID, which tell objects of one name apart
WELL_ENOUGH = ("SlowDisk", "SlowPeers", "QuotaAlmostUsed")  # reasons of EtcdHealthy with which etcd serves
NOT_YET = "its EtcdCluster is looked at soon"


def user_of(wish: ClusterDeployment) -> str:
    """Return the user of etcd of a cluster: a certificate of an earlier object of the name is of another user."""
    return f"{wish.metadata.name}.{wish.metadata.uid[:UID_LETTERS]}"


def cluster_of(user: str) -> str:
    """Return the cluster of a user of etcd: names of clusters have no dot."""
    return user.rpartition(".")[0]


def prefix_of(wish: ClusterDeployment) -> str:
    """Return what names of a cluster's keys begin with, of an object that names an EtcdCluster."""
    ref = wish.spec.etcd.cluster_ref
    return (ref.prefix if ref is not None else None) or _usual(wish.metadata.name, wish.metadata.uid)


def _usual(name: str, uid: str) -> str:
    return f"/{name}-{uid[:UID_LETTERS]}" if uid else f"/{name}"


def overlap(prefix: str, other: str) -> bool:
    """Tell whether keys of one prefix may be keys of another."""
    return f"{prefix}/".startswith(f"{other}/") or f"{other}/".startswith(f"{prefix}/")


def clients_of(etcd: Json | None, clusters: Iterable[Json]) -> tuple[EtcdClient, ...]:
    """Return the clusters that have a prefix of an EtcdCluster, in the order of their names.

    Args:
        clusters: the Clusters of its namespace.
    """
    name, uid = dig(etcd, "metadata", "name"), dig(etcd, "metadata", "uid")
    states = ((cluster["metadata"]["name"], _state(cluster)) for cluster in clusters)
    return tuple(
        EtcdClient(cluster, state.user, state.prefix, state.leaving, state.deletes)
        for cluster, state in sorted(states, key=lambda named: named[0])
        if state is not None and state.user and (state.cluster, state.uid) == (name, uid)
    )


def _state(cluster: Json | None) -> EtcdClientState | None:
    state = dig(cluster, "status", "etcdClient")
    return EtcdClientState.model_validate(state) if state else None


def variables_around(wish: ClusterDeployment, world: Observed) -> dict[str, Any]:
    """Return the variables of a wish that other objects give: members of its EtcdCluster, or users of its clients.

    What was deployed stays as long as nobody knows anything else.
    """
    applied: Mapping[str, Any] = world.applied.variables if world.applied is not None else {}
    if wish.kind == ETCD_CLUSTER.kind:
        users = [{"name": client.user, "prefix": client.prefix} for client in world.clients if not client.leaving]
        return {ETCD_USERS: users} if users or ETCD_USERS in applied else {}
    if wish.spec.etcd.cluster_ref is None:
        return {}
    state = world.etcd_client
    if state is not None and state.endpoints:
        return {ETCD_ENDPOINTS: sorted(state.endpoints), ETCD_PREFIX: state.prefix}
    return {name: applied[name] for name in (ETCD_ENDPOINTS, ETCD_PREFIX) if name in applied}


@dataclass(frozen=True)
class AskedPrefix:
    """The prefix of another cluster of the same EtcdCluster. held: it has it.  since: when it was declared."""

    cluster: str
    prefix: str
    held: bool
    since: str


@dataclass(frozen=True)
class EtcdAround:
    """What is around a cluster that names an EtcdCluster.

    etcd: the EtcdCluster as it was written, None where no EtcdCluster has the name.  cluster: its Cluster.
    others: prefixes of other clusters there.
    """

    etcd: Json | None
    cluster: DeclaredCluster | None = None
    others: tuple[AskedPrefix, ...] = ()

    @staticmethod
    def of(
        wish: ClusterDeployment, etcd: Json | None, clusters: Iterable[Json], deployments: Iterable[Json]
    ) -> EtcdAround:
        """Return it for a wish that names an EtcdCluster.

        Args:
            clusters, deployments: Clusters and ClusterDeployments of the namespace.
        """
        ref = wish.spec.etcd.cluster_ref
        name = ref.name if ref is not None else ""
        by_name = {cluster["metadata"]["name"]: cluster for cluster in clusters}
        held = {client.cluster: client.prefix for client in clients_of(etcd, by_name.values())}
        others = [AskedPrefix(cluster, prefix, held=True, since="") for cluster, prefix in held.items()]
        for deployment in deployments:
            meta, asked = deployment["metadata"], dig(deployment, "spec", "etcd", "clusterRef") or {}
            if asked.get("name") == name and meta["name"] not in held:
                prefix = str(asked.get("prefix") or _usual(meta["name"], meta.get("uid", "")))
                others.append(AskedPrefix(meta["name"], prefix, False, str(meta.get("creationTimestamp", ""))))
        cluster = by_name.get(name) if etcd is not None else None
        own = wish.metadata.name
        return EtcdAround(
            etcd,
            DeclaredCluster.model_validate(cluster) if cluster is not None else None,
            tuple(other for other in others if other.cluster != own),
        )


@dataclass(frozen=True)
class _Asking:
    """A cluster that names an EtcdCluster. before: what it had of one.  fixed: that does not change any more."""

    wish: ClusterDeployment
    around: EtcdAround
    before: EtcdClientState | None
    fixed: bool

    @property
    def name(self) -> str:
        ref = self.wish.spec.etcd.cluster_ref
        return ref.name if ref is not None else ""

    @property
    def what(self) -> str:
        return f"EtcdCluster {self.name}"

    @property
    def prefix(self) -> str:
        return self.before.prefix if self.fixed and self.before is not None else prefix_of(self.wish)

    @property
    def uid(self) -> str:
        return str(dig(self.around.etcd, "metadata", "uid") or "")

    @property
    def held(self) -> bool:
        """Tell whether it has this very prefix of this very EtcdCluster."""
        known = self.before
        return known is not None and bool(known.user) and (known.uid, known.prefix) == (self.uid, self.prefix)

    @property
    def applied(self) -> AppliedState | None:
        return self.around.cluster.status.applied if self.around.cluster is not None else None

    @property
    def made(self) -> bool:
        """Tell whether etcd has its user."""
        users = self.applied.variables.get(ETCD_USERS) if self.applied is not None else None
        known = users if isinstance(users, list) else []
        return self.held and {"name": user_of(self.wish), "prefix": self.prefix} in known

    @property
    def going(self) -> bool:
        """Tell whether the EtcdCluster is being deleted."""
        return deleting(self.around.etcd or {})

    def says(self, kind: str) -> Json:
        return condition(self.around.etcd or {}, kind) or {}


def _absent(asking: _Asking) -> str:
    namespace = asking.wish.metadata.namespace
    return "" if asking.around.etcd is not None else f"there is no {asking.what} in namespace {namespace}: create it"


def _another(asking: _Asking) -> str:
    known = asking.before
    if not asking.fixed or known is None or not known.uid or known.uid == asking.uid:
        return ""
    return f"{asking.what} is another one than that in which this cluster has its keys, which was deleted"


def _going(asking: _Asking) -> str:
    """Return why no cluster begins with it; one that has its keys there goes on, since the deletion waits for it."""
    return f"{asking.what} is being deleted" if asking.going and not (asking.made and asking.fixed) else ""


def _taken(asking: _Asking) -> str:
    if asking.held:
        return ""
    mine = (asking.wish.metadata.creation_timestamp or "", asking.wish.metadata.name)
    for other in asking.around.others:
        if overlap(asking.prefix, other.prefix) and (other.held or (other.since, other.cluster) < mine):
            overlaps = f"the prefix {asking.prefix} overlaps {other.prefix}"
            owner = f"which cluster {other.cluster} has in {asking.what}"
            return f"{overlaps}, {owner}: set spec.etcd.clusterRef.prefix to another one"
    return ""


def _not_deployed(asking: _Asking) -> str:
    if asking.applied is not None:
        return ""
    message = asking.says(PROGRESSING).get("message", "")
    return f"{asking.what} is not deployed yet" + (f": {message}" if message else "")


def _unsigned(asking: _Asking) -> str:
    state = asking.around.cluster.status.authority if asking.around.cluster is not None else None
    if state is not None and state.usable and any(part.name == "etcd" for part in state.parts):
        return ""
    message = f": {state.message}" if state is not None and state.message else ""
    return f"{asking.what} has no CA that signs a certificate for this cluster{message}"


def _unknown(asking: _Asking) -> str:
    if asking.made:
        return ""
    message = asking.says(PROGRESSING).get("message", "")
    return f"the operation {USERS_OPERATION} of {asking.what} makes its user" + (f": {message}" if message else "")


DELETING = "EtcdClusterDeleting"
# What a cluster waits for before it can use its EtcdCluster: the first row that applies says it.
RULES: tuple[tuple[str, Callable[[_Asking], str]], ...] = (
    ("NoEtcdCluster", _absent),
    ("AnotherEtcdCluster", _another),
    (DELETING, _going),
    ("PrefixTaken", _taken),
    ("EtcdNotDeployed", _not_deployed),
    ("AuthorityUnusable", _unsigned),
    ("UserNotMade", _unknown),
)
RESERVED = ("UserNotMade", "")  # with these, a prefix is the cluster's
NOT_READY, USABLE = "EtcdNotReady", "Usable"


def _unready(asking: _Asking) -> str:
    """Return why no cluster is begun with an EtcdCluster that is deployed; "" where nothing speaks against it."""
    phase = dig(asking.around.etcd, "status", "phase")
    healthy, ready = asking.says(ETCD_HEALTHY), asking.says(READY)
    if phase in ("Ready", "Updating", "Waiting"):
        return ""
    if healthy.get("status") == "False" and healthy.get("reason") in WELL_ENOUGH:
        return ""
    if asking.going and healthy.get("status") != "False":
        return ""
    message = ready.get("message", "")
    return f"{asking.what} is {phase or 'not ready'}" + (f": {message}" if message else "")


def _readiness(asking: _Asking) -> tuple[str, str]:
    """Return the reason and the message of an EtcdCluster that a cluster can use."""
    if unready := _unready(asking):
        return NOT_READY, unready
    if asking.going:
        return DELETING, f"{asking.what} is being deleted, which waits until no cluster has its keys there"
    return USABLE, ""


def client_state(
    wish: ClusterDeployment, before: EtcdClientState | None, around: EtcdAround, *, fixed: bool
) -> EtcdClientState:
    """Return what a cluster has of the EtcdCluster that it names, but for its certificate.

    Args:
        wish: which names one.  before: what it had.
        fixed: the prefix is in use: something is or may be deployed.
    """
    asking = _Asking(wish, around, before, fixed and before is not None and bool(before.user))
    reason, message = next(((word, sentence) for word, rule in RULES if (sentence := rule(asking))), ("", ""))
    reserved = reason in RESERVED
    kept = asking.held or asking.fixed
    endpoints = sorted(endpoints_of(asking.applied)) if reserved or asking.held else []
    usable = not reason
    if usable:
        reason, message = _readiness(asking)
    known = before if before is not None and kept else EtcdClientState(cluster=asking.name)
    return known.model_copy(
        update={
            "cluster": asking.name,
            "uid": asking.uid if reserved else known.uid,
            "prefix": asking.prefix,
            "user": user_of(wish) if reserved else known.user,
            "made": asking.made,
            "usable": usable,
            "ready": usable and reason != NOT_READY,
            "reason": reason,
            "message": message,
            "endpoints": tuple(endpoints) or known.endpoints,
        }
    )


def leaving_state(before: EtcdClientState, around: EtcdAround, wish: ClusterDeployment) -> EtcdClientState:
    """Return what a cluster still has once it is deleted and its machines are reset: its keys go, if they are to.

    With an EtcdCluster that goes as well, nothing is left to do.
    """
    asking = _Asking(wish, around, before, fixed=True)
    there = around.etcd is not None and not deleting(around.etcd) and asking.uid == before.uid
    deletes = wish.spec.deletion.etcd_keys == "Delete"
    return before.model_copy(update={"leaving": True, "deletes": deletes, "made": there and asking.made})


def restored_by(around: EtcdAround) -> str:
    """Return the last operation of an EtcdCluster that restored a snapshot, "" for none; its clusters went back."""
    history = around.cluster.status.history if around.cluster is not None else ()
    past = next(
        (
            operation
            for operation in history
            if operation.operation in (RESTORE, RECOVER) and operation.outcome == SUCCEEDED
        ),
        None,
    )
    return f"{past.operation} {past.sequence}" if past is not None and past.backup else ""


def place_mistakes(wish: ClusterDeployment, applied: AppliedState) -> Iterator[SpecMistake]:
    """Yield that a cluster which is deployed would have its keys in another etcd: an EtcdCluster, or none any more."""
    if (ETCD_ENDPOINTS in applied.variables) != (wish.spec.etcd.cluster_ref is not None):
        yield SpecMistake("spec.etcd.clusterRef", SAME_ETCD.message, SAME_ETCD.remedy)


def prefix_mistakes(wish: ClusterDeployment, world: Observed) -> list[SpecMistake]:
    """Return what is wrong with the name and the prefix because of what is or may be deployed."""
    ref, state = wish.spec.etcd.cluster_ref, world.etcd_client
    if ref is None or state is None or not state.user or not world.touched:
        return []
    if ref.name != state.cluster:
        message = f"the cluster has its keys in EtcdCluster {state.cluster}, and cannot move"
        return [SpecMistake("spec.etcd.clusterRef.name", message, f"use {state.cluster}")]
    if prefix_of(wish) == state.prefix:
        return []
    message = f"names of the cluster's keys begin with {state.prefix}, which cannot change"
    return [SpecMistake("spec.etcd.clusterRef.prefix", message, f"use {state.prefix}")]


def etcd_unusable(situation: Situation) -> Wait | None:
    """Wait until a cluster that names an EtcdCluster has a prefix, a user and a certificate of it."""
    if situation.desired.spec.etcd.cluster_ref is None:
        return None
    state = situation.observed.etcd_client
    if state is not None and state.usable:
        return None
    return Wait(WaitReason.WAITING_FOR_ETCD, state.message if state is not None else NOT_YET)


def etcd_missing(situation: Situation) -> Wait | None:
    """Wait for what a cluster is begun with: also that its EtcdCluster is ready."""
    wait, state = etcd_unusable(situation), situation.observed.etcd_client
    if wait is not None or situation.desired.spec.etcd.cluster_ref is None or state is None or state.ready:
        return wait
    return Wait(WaitReason.WAITING_FOR_ETCD, state.message)


def in_use(desired: Desired, observed: Observed) -> Wait | None:
    """Wait with the deletion of an EtcdCluster while clusters have their keys in it."""
    if not desired.etcd_alone or not desired.deleting or not observed.clients:
        return None
    names = ", ".join(client.cluster for client in observed.clients)
    return Wait(WaitReason.ETCD_IN_USE, used_by(desired.wish.metadata.name, names))


def used_by(name: str, clusters: str) -> str:
    """Return why an EtcdCluster cannot be deleted; `clusters`: names, as one text."""
    return f"EtcdCluster {name} has the keys of {clusters}: delete these ClusterDeployments first"


def keys_left(desired: Desired, observed: Observed) -> Wait | None:
    """Wait with the deletion of a cluster until its user of etcd and its keys are gone, where they are to go."""
    policy, state = desired.spec.deletion, observed.etcd_client
    if not desired.deleting or policy.etcd_keys != "Delete" or policy.machines != "Reset":
        return None
    if state is None or not state.user or (state.leaving and not state.made):
        return None
    message = f"EtcdCluster {state.cluster} is to remove its user and its keys below {state.prefix}"
    return Wait(WaitReason.WAITING_FOR_ETCD, f"{message}; to leave them there, set spec.deletion.etcdKeys to Keep")


def etcd_users(situation: Situation) -> Due | None:
    """Return the change of etcd's users: of clusters that came, that left, or that a snapshot did not have."""
    applied, half = situation.applied, situation.observed.unsettled
    why = differing(situation.desired, applied, CLIENTS)
    if half is not None and CLIENTS in half.parts:
        why.append(f"users of etcd may differ since {half.why}")
    if not why:
        return None
    users = applied.variables.get(ETCD_USERS)
    names = [user.get("name") for user in users if isinstance(user, dict)] if isinstance(users, list) else []
    gone = [
        client.prefix
        for client in situation.observed.clients
        if client.leaving and client.deletes and client.user in names
    ]
    why += [f"keys below {prefix} go" for prefix in gone]
    variables = with_parts(applied.variables, situation.desired.variables, None, CLIENTS)
    change = StepChange(variables, extra={ETCD_DELETED: gone} if gone else {})
    return step(situation, ", ".join(why), situation.who.members, change)


def without_users(desired: Desired) -> Desired:
    """Return what is wanted of an EtcdCluster before there is any: nobody can make users of an etcd that is not."""
    return replace(
        desired,
        variables={name: setting for name, setting in desired.variables.items() if name != ETCD_USERS},
    )
