"""ClusterDeployments: their Cluster and MachineSets, their status, and the finalizer that waits for the reset.

The finalizer is there while something is or may soon be deployed that a deletion has to undo. Nothing is made of an
object with mistakes; what was made of it before stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from harness.errors import InfraRetriable
from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer, Key, key_of, labels_of
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import controller_of, deleting, dig, parse_time
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.addons import BUILT_IN, AddonStatus
from harness.operator.api.cluster import AppliedHost, CurrentOperation, DeclaredCluster
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.conditions import (
    ACCEPTED,
    ADDONS_READY,
    AUTHORITY_VALID,
    BACKUP_FRESH,
    BACKUP_PROVEN,
    CONTROL_PLANE_READY,
    DEGRADED,
    ENDPOINT_READY,
    ETCD_AVAILABLE,
    ETCD_HEALTHY,
    MACHINES_READY,
    NETWORK_ISOLATED,
    NETWORKS_ALLOCATED,
    NODE_READY,
    PROGRESSING,
    READY,
    SPREAD,
    Condition,
    Said,
    new,
    with_conditions,
)
from harness.operator.api.endpoint import api_url, url_of
from harness.operator.api.etcd import EtcdClusterRef
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_LABEL,
    ETCD_CLUSTER,
    KIND_LABEL,
    MACHINE_SET,
    RESET_FINALIZER,
    UID_LABEL,
)
from harness.operator.api.sets import CONTROL_PLANE, GROUPS, set_name
from harness.operator.context import OperatorContext
from harness.operator.controllers.addons import source_digest
from harness.operator.controllers.cluster_view import (
    ClusterLooks,
    DeclaredView,
    again_for,
    follow_backups,
    follow_clients,
    of_uid,
    owned_by,
)
from harness.operator.controllers.declarations import (
    declared_key,
    declared_now,
    follow_declared,
    owner_of,
    resource_of,
)
from harness.operator.controllers.declared_status import (
    authority_valid,
    backup_fresh,
    backup_proven,
    beyond_help,
    freshness_of,
    is_ready,
    machines_ready,
    progressing,
    proof_of,
    ready_at_all,
    spread,
    wanted_machines,
)
from harness.operator.controllers.machine import API_UNREACHABLE
from harness.operator.controllers.machine_phase import follow_claims
from harness.operator.decide.endpoint import is_named
from harness.operator.decide.endpoint import told as told_of_endpoint
from harness.operator.decide.etcd import health
from harness.operator.decide.etcdclients import NOT_YET as NO_CLIENT_YET
from harness.operator.decide.etcdclusters import is_etcd, name_taken, scaled_to
from harness.operator.decide.isolation import told as told_of_isolation
from harness.operator.decide.networks import NOT_YET
from harness.operator.decide.observed import RESET, RESTORING
from harness.operator.decide.operations import Nothing

EDITED = "Edited"
FIELDS = {ETCD_CLUSTER.kind: "spec"}  # in which a MachineSet's set is, where that is not spec.machineSets


class FormerObject(InfraRetriable):
    """What an earlier ClusterDeployment of the name has left is still being deleted."""


def derived(machine_set: Json) -> str:
    """Return why a MachineSet is not edited, and what to edit instead."""
    name, owner = machine_set["metadata"]["name"], controller_of(machine_set) or {}
    kind = owner.get("kind", CLUSTER_DEPLOYMENT.kind)
    source, field = f"{kind} {owner.get('name', '')}".rstrip(), FIELDS.get(kind, "spec.machineSets")
    return f"MachineSet {name} is derived: edit {field} of {source} instead"


def told(sets: Informer, existing: Json, body: Json, deployment: Json) -> Json:
    """Return a MachineSet as it is once its condition says that an edit is put back; as it was if nobody edited it.

    While the spec of the ClusterDeployment is the one that its status is about, its sets have not changed by it.
    """
    known = dig(deployment, "status", "observedGeneration") == deployment["metadata"].get("generation")
    if existing.get("spec") == body.get("spec") or not known:
        return existing
    generation = existing["metadata"].get("generation")
    edited = new(EDITED, True, "PutBack", derived(existing), datetime.now(UTC), generation)
    conditions = with_conditions(dig(existing, "status", "conditions") or [], edited)
    return sets.merge_status(existing, {"conditions": conditions})


def scaled(machine_set: Json, deployment: Json) -> Json | None:
    """Return the sets of a ClusterDeployment after somebody scaled one of its MachineSets; None where nobody did.

    Only the subresource counts, which `kubectl scale` and autoscalers write; any other edit is put back.
    """
    known = dig(deployment, "status", "observedGeneration") == deployment["metadata"].get("generation")
    fields = machine_set["metadata"].get("managedFields") or ()
    by_scale = any(
        entry.get("subresource") == "scale" and "f:replicas" in (dig(entry, "fieldsV1", "f:spec") or ())
        for entry in fields
    )
    if not known or not by_scale:
        return None
    number, cluster = dig(machine_set, "spec", "replicas"), deployment["metadata"]["name"]
    sets = [
        {**wanted_set, "replicas": number}
        if set_name(cluster, wanted_set["name"]) == machine_set["metadata"]["name"]
        else wanted_set
        for wanted_set in deployment["spec"]["machineSets"]
    ]
    return {"machineSets": sets} if sets != deployment["spec"]["machineSets"] else None


def cluster_object(deployment: Json, wish: ClusterDeployment) -> Json:
    """Return the Cluster."""
    made = _child(CLUSTER, deployment["metadata"]["name"], deployment)
    if wish.spec.deletion.machines == "Reset":
        made["metadata"]["ownerReferences"] = []
    return made


def machine_sets(deployment: Json, wish: ClusterDeployment) -> list[Json]:
    """Return the MachineSets, with their defaults as the API server fills them in."""
    name = deployment["metadata"]["name"]
    return [
        {
            **_child(MACHINE_SET, set_name(name, machine_set.name), deployment),
            "spec": machine_set.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for machine_set in wish.spec.machine_sets
    ]


def make_children(api: Cluster, clusters: Informer, sets: Informer, deployment: Json, wish: ClusterDeployment) -> bool:
    """Make or correct what an object owns, and delete the sets that it lost; tell whether anything was to do.

    Raises:
        FormerObject: something of a name is another object's still.
    """
    bodies = machine_sets(deployment, wish)
    changed = [_ensure(api, CLUSTER, clusters, deployment, cluster_object(deployment, wish))]
    changed += [_ensure(api, MACHINE_SET, sets, deployment, body) for body in bodies]
    mine, names = key_of(deployment), {body["metadata"]["name"] for body in bodies}
    for machine_set in sets.by(of_uid, deployment["metadata"]["uid"]):
        lost = declared_key(machine_set) == mine and machine_set["metadata"]["name"] not in names
        if lost and owned_by(machine_set, deployment) and not deleting(machine_set):
            changed.append(api.delete(MACHINE_SET, machine_set["metadata"]["name"], mine[0]))
    return any(changed)


def _child(kind: Resource, name: str, deployment: Json) -> Json:
    meta = deployment["metadata"]
    labels = {CLUSTER_LABEL: meta["name"], UID_LABEL: meta["uid"], LABEL_MANAGED: MANAGED_BY}
    labels |= {KIND_LABEL: ETCD_CLUSTER.kind} if is_etcd(deployment) else {}
    made = kind.manifest(name, meta["namespace"], labels=labels)
    made["metadata"]["ownerReferences"] = [owner_of(deployment)]
    return made


def _ensure(api: Cluster, kind: Resource, known: Informer, deployment: Json, body: Json) -> bool:
    namespace, name = key_of(body)
    existing = known.get(namespace, name)
    if existing is None:
        if api.create_if_absent(kind, body):
            return True
        existing = api.get(kind, name, namespace)
    if existing is not None and UID_LABEL in labels_of(existing) and not owned_by(existing, deployment):
        api.delete(kind, name, namespace)
    if existing is None or deleting(existing) or not owned_by(existing, deployment):
        raise FormerObject(
            f"{kind.kind} {name} is another object's, or still being deleted",
            hint="what an earlier object of the name has left is deleted in the background",
        )
    owners = body["metadata"]["ownerReferences"]
    if existing.get("spec") == body.get("spec") and (existing["metadata"].get("ownerReferences") or []) == owners:
        return False
    existing = told(known, existing, body, deployment) if kind is MACHINE_SET else existing
    meta = {**existing["metadata"], "ownerReferences": owners}
    spec = {"spec": body["spec"]} if "spec" in body else {}
    known.observe(api.replace(kind, {**existing, "metadata": meta, **spec}))
    return True


def addons_ready(view: DeclaredView) -> tuple[bool | None, str, str]:
    """Return status, reason and message of the condition; the status is None where nobody can tell."""
    if view.observed.applied is None or view.cluster is None or view.wish is None:
        return False, "NotDeployed", "there is no cluster yet"
    state = DeclaredCluster.model_validate(view.cluster).status
    told = {state.name: state for state in state.addons}
    own = [addon for addon in view.wish.spec.addons if addon.manifests is not None]
    unseen = [
        AddonStatus(name=addon.name, ready=False, reason="Applying", message="it is looked at soon")
        for addon in own
        if addon.name not in told or told[addon.name].source != source_digest(addon)
    ]
    new = {state.name for state in unseen}
    gone = told.keys() - {addon.name for addon in view.wish.spec.addons}
    leaving = [told[name] for name in sorted(gone) if name not in BUILT_IN]
    states = [*(told[a.name] for a in view.wish.spec.addons if a.name in told and a.name not in new), *unseen, *leaving]
    wrong = [state for state in states if state.ready is False or (state.name in gone and state.ready is not None)]
    dark = [state for state in states if state.ready is None]
    for status, some in ((False, wrong), (None, dark)):
        if some:
            return status, some[0].reason, "; ".join(f"{state.name}: {state.message or state.reason}" for state in some)
    return True, "AllReady" if states else "NoAddons", ""


SILENCING = (*RESTORING, RESET)
RESTART_SECONDS = 120.0  # of an API server with new settings (60 s), and of its return to the former ones (60 s)
FORMER_SECONDS = 1.0  # pacing: what is left of an earlier object goes in the background


def status_of(view: DeclaredView, sets: Sequence[Json], moment: datetime) -> Json:
    """Return the status that a ClusterDeployment should have.

    Args:
        sets: its MachineSets.  moment: when conditions that change have changed.
    """
    machines, planes, moving = machines_ready(view, sets), _control_planes(view), progressing(view)
    addons, degraded = addons_ready(view), _degraded(view, moment)
    endpoint, etcd = _endpoint_ready(view), _etcd_available(view)
    conditions = {
        ACCEPTED: (False, "InvalidSpec", "; ".join(view.mistakes)) if view.mistakes else (True, "Accepted", ""),
        PROGRESSING: moving,
        DEGRADED: degraded,
        MACHINES_READY: machines,
        CONTROL_PLANE_READY: planes,
        ADDONS_READY: addons,
        BACKUP_FRESH: backup_fresh(view, moment),
        BACKUP_PROVEN: backup_proven(view, moment),
        ETCD_HEALTHY: _etcd_healthy(view),
        ETCD_AVAILABLE: etcd,
        AUTHORITY_VALID: authority_valid(view),
        NETWORKS_ALLOCATED: _networks_allocated(view),
        NETWORK_ISOLATED: _isolated(view),
        ENDPOINT_READY: endpoint,
        SPREAD: spread(sets),
        READY: ready_at_all(view, moving, degraded, (planes, machines, addons, endpoint, etcd)),
    }
    generation, applied = view.deployment["metadata"].get("generation"), view.observed.applied
    expected_conditions = [new(kind, *words, moment, generation) for kind, words in conditions.items()]
    status: Json = {
        "observedGeneration": generation,
        "version": applied.version if applied is not None else None,
        "machines": f"{sum(map(is_ready, view.machines))}/{wanted_machines(view)}",
        "endpoint": _endpoint(view) if applied is not None else None,
        "conditions": with_conditions(dig(view.deployment, "status", "conditions") or [], *expected_conditions),
    }
    return {name: value for name, value in status.items() if value is not None}


def _networks_allocated(view: DeclaredView) -> Said:
    """Return whether the networks are this cluster's alone; without a pool, they are compared with nobody's."""
    if view.wish is None or view.wish.spec.network.pool is None:
        return True, "NoPool", ""
    state = view.observed.networks
    return (None, "NotYet", NOT_YET) if state is None else (state.allocated, state.reason, state.message)


def _etcd_healthy(view: DeclaredView) -> Said:
    """Return how its members of etcd are."""
    if (ref := _etcd_cluster(view)) is not None:
        return None, "Elsewhere", f"EtcdCluster {ref.name} says how its members are"
    etcd_health = health(view.observed)
    return etcd_health.healthy, etcd_health.reason, etcd_health.message


def _etcd_available(view: DeclaredView) -> Said:
    """Return whether the EtcdCluster that it names, if it names one, serves it."""
    if _etcd_cluster(view) is None:
        return True, "OwnEtcd", ""
    state = view.observed.etcd_client
    return (None, "NotYet", NO_CLIENT_YET) if state is None else (state.ready, state.reason, state.message)


def _etcd_cluster(view: DeclaredView) -> EtcdClusterRef | None:
    return view.wish.spec.etcd.cluster_ref if view.wish is not None else None


def _isolated(view: DeclaredView) -> Said:
    """Return whether policies keep its machines apart."""
    if view.wish is None:
        return None, "NotAccepted", ""
    return told_of_isolation(view.observed.isolation, view.wish)


def _endpoint_ready(view: DeclaredView) -> Said:
    """Return whether the endpoint leads to the API."""
    if view.wish is None:
        return None, "NotAccepted", ""
    return told_of_endpoint(view.observed.endpoint, view.wish.spec.way, usable=_named(view))


def _named(view: DeclaredView) -> bool:
    """Tell whether certificates have the names of the endpoint."""
    applied = view.observed.applied
    return applied is not None and view.wish is not None and is_named(view.wish, applied.variables)


def _degraded(view: DeclaredView, moment: datetime) -> Said:
    if (stuck := beyond_help(view)) is not None:
        return stuck
    silent = None if _silences(view) else _silent_api(view, moment)
    return (True, API_UNREACHABLE, silent) if silent is not None else (False, "AsExpected", "")


def _silences(view: DeclaredView) -> bool:
    """Tell whether the operation of the moment explains a silent API: a quorum is restored, or the cluster is reset."""
    running, verdict = view.observed.running, view.verdict
    if running is not None:
        return running.operation in SILENCING
    return isinstance(verdict, CurrentOperation) and verdict.operation in SILENCING


def _silent_api(view: DeclaredView, moment: datetime) -> str | None:
    """Return why the API of a deployed cluster does not answer; None where it answers, or where nobody can tell yet."""
    nodes = _unreachable(view)
    return nodes[0].message if nodes and not _silence_left(view, moment) else None


def _silence_left(view: DeclaredView, moment: datetime) -> float:
    """Return for how many seconds the silence of an API says nothing.

    An operation that runs restarts API servers. After its end they may still be starting, and what was seen last may be
    older than that.
    """
    silent = [parse_time(node_condition.last_transition_time) for node_condition in _unreachable(view)]
    if not silent:
        return 0.0
    past = view.observed.history[0].ended if view.observed.history else None
    since = [max(silent)] if view.observed.running is not None else [parse_time(past)] if past is not None else []
    return max([0.0, *(RESTART_SECONDS - (moment - last_seen).total_seconds() for last_seen in since)])


def _unreachable(view: DeclaredView) -> list[Condition]:
    """Return what the machines that are deployed as nodes say, where all of them say that the API is silent."""
    deployed = {host.machine for host in view.observed.applied.hosts} if view.observed.applied is not None else set()
    nodes = [
        node_condition
        for machine in view.machines
        for node_condition in machine.status.conditions
        if node_condition.type == NODE_READY and machine.metadata.name in deployed
    ]
    return nodes if all(node_condition.reason == API_UNREACHABLE for node_condition in nodes) else []


def _control_planes(view: DeclaredView) -> Said:
    if view.observed.applied is None:
        return False, "NotDeployed", "there is no cluster yet"
    ready, planes = {machine.metadata.name for machine in view.machines if is_ready(machine)}, _planes(view)
    late = [host.machine for host in planes if host.machine not in ready]
    if late or not planes:
        return False, "NotReady", f"not ready: {', '.join(late) or 'there is no control plane'}"
    return True, "AllReady", ""


def _planes(view: DeclaredView) -> list[AppliedHost]:
    """Return the control planes that are deployed; not those that are still to join."""
    hosts = view.observed.applied.hosts if view.observed.applied is not None else ()
    return [host for host in hosts if GROUPS[CONTROL_PLANE] in host.groups]


def _endpoint(view: DeclaredView) -> str | None:
    """Return the URL of the endpoint, or of the first control plane's API server while certificates do not name it."""
    if view.wish is not None and _named(view):
        meta, state = view.wish.metadata, view.observed.endpoint
        url = api_url(view.wish.spec.way, meta.name, meta.namespace, state.port if state is not None else None)
        if url is not None:
            return url
    first = next((host.address for host in _planes(view)), None)
    return url_of(first) if first else None


StatusOf = Callable[[DeclaredView, Sequence[Json], datetime], Json]


class DeclarationController:
    """Reconciles the objects of one kind that people declare: ClusterDeployments, or EtcdClusters."""

    def __init__(self, context: OperatorContext, kind: Resource, what: StatusOf) -> None:
        """Work for a kind; `what` makes the status of one of its objects."""
        self._cluster = context.cluster
        self._kind = kind
        self._status_of = what
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller(kind.kind.lower(), self.reconcile)
        queue = self.controller.queue
        follow(looks.deployments, queue)
        follow(looks.clusters, queue)
        follow_declared(looks.sets, queue)
        follow_claims(looks.machines, queue)
        follow_backups(looks, queue)
        follow_clients(looks, queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one object; change one thing."""
        own, view = self._looks.deployments.of_kind(self._kind, key), self._looks.view(key)
        if view is None:
            self._orphan(key)
            return None
        if own is not None and (taken := name_taken(own, view.deployment)) is not None:
            self._refuse(own, taken)
        if resource_of(view.deployment) is not self._kind:
            return None
        try:
            if self._finalizer(view) or self._scaled(view) or self._children(view):
                return 0.0
        except FormerObject:
            return FORMER_SECONDS
        self._status(view)
        now = datetime.now(UTC)
        turns = (freshness_of(view, now).turns, proof_of(view, now).turns)
        stale = [(turn - now).total_seconds() for turn in turns if turn is not None]
        waits = (_silence_left(view, now) or None, again_for(view.wish), *stale)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _refuse(self, deployment: Json, taken: SpecMistake) -> None:
        """Say of an object that another kind's older one has its name. Nothing is done for it."""
        moment, generation = datetime.now(UTC), deployment["metadata"].get("generation")
        conditions = [new(kind, False, "NameTaken", taken.text, moment, generation) for kind in (ACCEPTED, READY)]
        status = {"conditions": with_conditions(dig(deployment, "status", "conditions") or [], *conditions)}
        if status["conditions"] != dig(deployment, "status", "conditions"):
            self._looks.deployments.replace_status(deployment, {**(deployment.get("status") or {}), **status})

    def _orphan(self, key: Key) -> None:
        """Delete the Cluster of an object that went without its finalizer: somebody has taken it off by hand."""
        cluster = self._looks.clusters.get(*key)
        if cluster is None or deleting(cluster) or UID_LABEL not in labels_of(cluster):
            return
        owned = bool(cluster["metadata"].get("ownerReferences"))
        if not owned and declared_now(self._cluster, key) is None:
            self._cluster.delete(CLUSTER, key[1], key[0])

    def _finalizer(self, view: DeclaredView) -> bool:
        """Put the finalizer on, or take it off; tell whether that was to do."""
        finalizers = view.deployment["metadata"].get("finalizers") or []
        has = RESET_FINALIZER in finalizers
        if has == _needed(view, has=has):
            return False
        namespace, name = view.key
        if has:
            cluster = self._cluster.get(CLUSTER, name, namespace)  # the local copy may be older than an operation
            mine = cluster is not None and owned_by(cluster, view.deployment)
            if _needed(self._looks.seen(view.deployment, cluster if mine else None), has=True):
                return False
            if deleting(view.deployment):
                self._cluster.delete(CLUSTER, name, namespace)
        others = [finalizer for finalizer in finalizers if finalizer != RESET_FINALIZER]
        patch = {"metadata": {"finalizers": others if has else [*others, RESET_FINALIZER]}}
        self._looks.deployments.merge(view.deployment, patch)
        return True

    def _scaled(self, view: DeclaredView) -> bool:
        """Take over the number of a set that somebody scaled, unless the cluster must not have it: tell whether it was.

        What is not taken over is put back like any edit, and the condition `Edited` of the set says why.
        """
        if view.wish is None or view.mistakes or deleting(view.deployment):
            return False
        for machine_set in self._looks.sets.by(of_uid, view.deployment["metadata"]["uid"]):
            spec = scaled(machine_set, view.deployment)
            if spec is None:
                continue
            after = {**view.deployment, "spec": {**view.deployment["spec"], **spec}}
            if is_etcd(view.deployment):
                spec = {"replicas": spec["machineSets"][0]["replicas"]}
                after = scaled_to(view.deployment, spec["replicas"])
            if not self._looks.seen(after, view.cluster).mistakes:
                self._looks.deployments.merge(view.deployment, {"spec": spec})
                return True
        return False

    def _children(self, view: DeclaredView) -> bool:
        if view.wish is None or view.mistakes or deleting(view.deployment):
            return False
        return make_children(self._cluster, self._looks.clusters, self._looks.sets, view.deployment, view.wish)

    def _status(self, view: DeclaredView) -> None:
        """Write the status, if it is another one."""
        sets = self._looks.sets.by(of_uid, view.deployment["metadata"]["uid"])
        status = self._status_of(view, sets, datetime.now(UTC))
        if status != view.deployment.get("status"):
            self._looks.deployments.replace_status(view.deployment, status)


def _needed(view: DeclaredView, *, has: bool) -> bool:
    """Tell whether the deletion of an object has to wait: for a reset, or for the clusters of an EtcdCluster."""
    if view.wish is None:
        return has and view.observed.touched
    if view.wish.spec.deletion.machines != "Reset":
        return bool(view.observed.clients)
    if deleting(view.deployment):
        return has and not (view.observed.running is None and isinstance(view.verdict, Nothing))
    return has or view.observed.sequence > 0 or not view.mistakes


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(DeclarationController(context, CLUSTER_DEPLOYMENT, status_of).controller)
