"""ClusterDeployments: their Cluster and MachineSets, their status, and the finalizer that waits for the reset.

The finalizer is there while something is or may soon be deployed that a deletion has to undo. Nothing is made of an
object with mistakes; what was made of it before stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from harness.errors import InfraRetriable
from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer, Key, key_of, labels_of
from harness.kube.objects import condition, controller_of, deleting, dig, owner_reference, parse_time
from harness.kube.reconcile import Controller, follow, follow_children, owner_key
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
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import (
    CANCEL_ANNOTATION,
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_LABEL,
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
    of_uid,
    owned_by,
)
from harness.operator.controllers.machine import API_UNREACHABLE
from harness.operator.controllers.machine_phase import follow_claims
from harness.operator.decide.authority import EXPIRES_SOON, is_wanted
from harness.operator.decide.backups import BackupFreshness, freshness
from harness.operator.decide.drills import BackupProof, proof
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.endpoint import is_named
from harness.operator.decide.endpoint import told as told_of_endpoint
from harness.operator.decide.etcd import health
from harness.operator.decide.isolation import told as told_of_isolation
from harness.operator.decide.networks import NOT_YET
from harness.operator.decide.observed import RESET, RESTORING
from harness.operator.decide.operations import Nothing
from harness.operator.decide.spread import together

EDITED = "Edited"


class FormerObject(InfraRetriable):
    """What an earlier ClusterDeployment of the name has left is still being deleted."""


def derived(machine_set: Json) -> str:
    """Return why a MachineSet is not edited, and what to edit instead."""
    name, owner = machine_set["metadata"]["name"], (controller_of(machine_set) or {}).get("name", "")
    source = f"ClusterDeployment {owner}".rstrip()
    return f"MachineSet {name} is derived: edit spec.machineSets of {source} instead"


def told(sets: Informer, found: Json, wanted: Json, deployment: Json) -> Json:
    """Return a MachineSet as it is once its condition says that an edit is put back; as it was if nobody edited it.

    While the spec of the ClusterDeployment is the one that its status is about, its sets have not changed by it.
    """
    known = dig(deployment, "status", "observedGeneration") == deployment["metadata"].get("generation")
    if found.get("spec") == wanted.get("spec") or not known:
        return found
    generation = found["metadata"].get("generation")
    said = new(EDITED, True, "PutBack", derived(found), datetime.now(UTC), generation)
    conditions = with_conditions(dig(found, "status", "conditions") or [], said)
    return sets.merge_status(found, {"conditions": conditions})


def scaled(found: Json, deployment: Json) -> Json | None:
    """Return the sets of a ClusterDeployment after somebody scaled one of its MachineSets; None where nobody did.

    Only the subresource counts, which `kubectl scale` and autoscalers write; any other edit is put back.
    """
    known = dig(deployment, "status", "observedGeneration") == deployment["metadata"].get("generation")
    fields = found["metadata"].get("managedFields") or ()
    by_scale = any(
        one.get("subresource") == "scale" and "f:replicas" in (dig(one, "fieldsV1", "f:spec") or ()) for one in fields
    )
    if not known or not by_scale:
        return None
    number, cluster = dig(found, "spec", "replicas"), deployment["metadata"]["name"]
    sets = [
        {**one, "replicas": number} if set_name(cluster, one["name"]) == found["metadata"]["name"] else one
        for one in deployment["spec"]["machineSets"]
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
            **_child(MACHINE_SET, set_name(name, one.name), deployment),
            "spec": one.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for one in wish.spec.machine_sets
    ]


def make_children(api: Cluster, clusters: Informer, sets: Informer, deployment: Json, wish: ClusterDeployment) -> bool:
    """Make or correct what an object owns, and delete the sets that it lost; tell whether anything was to do.

    Raises:
        FormerObject: something of a name is another object's still.
    """
    wanted = machine_sets(deployment, wish)
    changed = [_ensure(api, CLUSTER, clusters, deployment, cluster_object(deployment, wish))]
    changed += [_ensure(api, MACHINE_SET, sets, deployment, one) for one in wanted]
    mine, names = key_of(deployment), {one["metadata"]["name"] for one in wanted}
    for one in sets.by(of_uid, deployment["metadata"]["uid"]):
        lost = owner_key(one, CLUSTER_DEPLOYMENT) == mine and one["metadata"]["name"] not in names
        if lost and owned_by(one, deployment) and not deleting(one):
            changed.append(api.delete(MACHINE_SET, one["metadata"]["name"], mine[0]))
    return any(changed)


def _child(kind: Resource, name: str, deployment: Json) -> Json:
    meta = deployment["metadata"]
    labels = {CLUSTER_LABEL: meta["name"], UID_LABEL: meta["uid"], LABEL_MANAGED: MANAGED_BY}
    made = kind.manifest(name, meta["namespace"], labels=labels)
    made["metadata"]["ownerReferences"] = [owner_reference(deployment, CLUSTER_DEPLOYMENT)]
    return made


def _ensure(api: Cluster, kind: Resource, known: Informer, deployment: Json, body: Json) -> bool:
    namespace, name = key_of(body)
    found = known.get(namespace, name)
    if found is None:
        if api.create_if_absent(kind, body):
            return True
        found = api.get(kind, name, namespace)
    if found is not None and UID_LABEL in labels_of(found) and not owned_by(found, deployment):
        api.delete(kind, name, namespace)
    if found is None or deleting(found) or not owned_by(found, deployment):
        raise FormerObject(
            f"{kind.kind} {name} is another object's, or still being deleted",
            hint="what an earlier ClusterDeployment of the name has left is deleted in the background",
        )
    owners = body["metadata"]["ownerReferences"]
    if found.get("spec") == body.get("spec") and (found["metadata"].get("ownerReferences") or []) == owners:
        return False
    found = told(known, found, body, deployment) if kind is MACHINE_SET else found
    meta = {**found["metadata"], "ownerReferences": owners}
    spec = {"spec": body["spec"]} if "spec" in body else {}
    known.observe(api.replace(kind, {**found, "metadata": meta, **spec}))
    return True


def addons_ready(view: DeclaredView) -> tuple[bool | None, str, str]:
    """Return status, reason and message of the condition; the status is None where nobody can tell."""
    if view.observed.applied is None or view.cluster is None or view.wish is None:
        return False, "NotDeployed", "there is no cluster yet"
    state = DeclaredCluster.model_validate(view.cluster).status
    told = {one.name: one for one in state.addons}
    own = [addon for addon in view.wish.spec.addons if addon.manifests is not None]
    unseen = [
        AddonStatus(name=addon.name, ready=False, reason="Applying", message="it is looked at soon")
        for addon in own
        if addon.name not in told or told[addon.name].source != source_digest(addon)
    ]
    new = {one.name for one in unseen}
    gone = told.keys() - {addon.name for addon in view.wish.spec.addons}
    leaving = [told[name] for name in sorted(gone) if name not in BUILT_IN]
    found = [*(told[a.name] for a in view.wish.spec.addons if a.name in told and a.name not in new), *unseen, *leaving]
    wrong = [one for one in found if one.ready is False or (one.name in gone and one.ready is not None)]
    dark = [one for one in found if one.ready is None]
    for status, some in ((False, wrong), (None, dark)):
        if some:
            return status, some[0].reason, "; ".join(f"{one.name}: {one.message or one.reason}" for one in some)
    return True, "AllReady" if found else "NoAddons", ""


SILENCING = (*RESTORING, RESET)
RESTART_SECONDS = 120.0  # of an API server with new settings (60 s), and of its return to the former ones (60 s)
# Waits after which something is done although nobody edits the object: who waits for the end of an edit waits on.
BY_ITSELF = frozenset(
    {
        *(WaitReason.RETRY_LATER, WaitReason.OPERATION_RUNNING, WaitReason.BACKUP_FIRST),
        *(WaitReason.WAITING_FOR_MACHINES, WaitReason.WAITING_FOR_NETWORKS, WaitReason.WAITING_FOR_AUTHORITY),
        *(WaitReason.WAITING_FOR_ENDPOINT, WaitReason.WAITING_FOR_ISOLATION, WaitReason.WAITING_FOR_CLAIM),
    }
)
# Waits that only a person ends, because something went wrong or cannot be.
NO_HELP = frozenset(
    {
        *(WaitReason.FAILED, WaitReason.CANCELLED, WaitReason.NOT_RECOVERABLE, WaitReason.NO_SUCH_PHASE),
        *(WaitReason.RESTORE_NOT_NAMED, WaitReason.RESTORE_NOT_CONFIRMED),
    }
)
FORMER_SECONDS = 1.0  # pacing: what is left of an earlier object goes in the background


def status_of(view: DeclaredView, sets: Sequence[Json], moment: datetime) -> Json:
    """Return the status that a ClusterDeployment should have.

    Args:
        sets: its MachineSets.  moment: when conditions that change have changed.
    """
    machines, planes, progressing = _machines(view, sets), _control_planes(view), _progressing(view)
    addons, degraded, found = addons_ready(view), _degraded(view, moment), health(view.observed)
    endpoint, proven = _endpoint_ready(view), _proof(view, moment)
    said = {
        ACCEPTED: (False, "InvalidSpec", "; ".join(view.mistakes)) if view.mistakes else (True, "Accepted", ""),
        PROGRESSING: progressing,
        DEGRADED: degraded,
        MACHINES_READY: machines,
        CONTROL_PLANE_READY: planes,
        ADDONS_READY: addons,
        BACKUP_FRESH: _backup_fresh(view, moment),
        BACKUP_PROVEN: (proven.proven, proven.reason, proven.message),
        ETCD_HEALTHY: (found.healthy, found.reason, found.message),
        AUTHORITY_VALID: _authority_valid(view),
        NETWORKS_ALLOCATED: _networks_allocated(view),
        NETWORK_ISOLATED: _isolated(view),
        ENDPOINT_READY: endpoint,
        SPREAD: _spread(sets),
        READY: _ready_at_all(view, progressing, degraded, (planes, machines, addons, endpoint)),
    }
    generation, applied = view.deployment["metadata"].get("generation"), view.observed.applied
    wanted = [new(kind, *words, moment, generation) for kind, words in said.items()]
    status: Json = {
        "observedGeneration": generation,
        "version": applied.version if applied is not None else None,
        "machines": f"{sum(map(_ready, view.machines))}/{_wanted(view)}",
        "endpoint": _endpoint(view) if applied is not None else None,
        "conditions": with_conditions(dig(view.deployment, "status", "conditions") or [], *wanted),
    }
    return {name: value for name, value in status.items() if value is not None}


def _backups(view: DeclaredView, moment: datetime) -> BackupFreshness:
    """Return whether backups are as young as the schedule promises, and until when that holds."""
    if view.wish is None or view.mistakes or view.cluster is None or view.observed.applied is None:
        return BackupFreshness(None, "NotDeployed", "there is no cluster to back up, or its object is not accepted")
    state = DeclaredCluster.model_validate(view.cluster).status.backup_schedule
    return freshness(view.wish.spec.etcd.backup, state, view.observed.backups, moment)


def _proof(view: DeclaredView, moment: datetime) -> BackupProof:
    """Return whether drills have proven a backup as lately as the object asks for, and until when that holds."""
    if view.desired is None or view.mistakes or view.observed.applied is None:
        return BackupProof(None, "NotDeployed", "there is no cluster to back up, or its object is not accepted")
    return proof(view.desired, view.observed.drill, view.observed.backups, moment)


def _backup_fresh(view: DeclaredView, moment: datetime) -> Said:
    found = _backups(view, moment)
    return found.fresh, found.reason, found.message


def _authority_valid(view: DeclaredView) -> Said:
    """Return whether the CAs that the cluster is begun with can be used, and for long enough."""
    state = view.observed.authority
    if view.cluster is None or view.wish is None or not is_wanted(view.wish) or state is None:
        return None, "OnMachines", "its CAs are made on its machines, and the operator has no copy of them"
    valid = state.usable and state.reason != EXPIRES_SOON
    return (True if valid else False if state.usable or state.message else None), state.reason, state.message


def _networks_allocated(view: DeclaredView) -> Said:
    """Return whether the networks are this cluster's alone; without a pool, they are compared with nobody's."""
    if view.wish is None or view.wish.spec.network.pool is None:
        return True, "NoPool", ""
    state = view.observed.networks
    return (None, "NotYet", NOT_YET) if state is None else (state.allocated, state.reason, state.message)


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


def _spread(sets: Sequence[Json]) -> Said:
    """Return whether the machines of sets that ask for it are spread over failure domains."""
    words: dict[str, bool | None] = {"True": True, "False": False}
    found = (condition(one, SPREAD) for one in sets if dig(one, "spec", "failureDomains") is not None)
    return together(
        (words.get(one["status"]), one["reason"], one.get("message", ""))
        if one is not None
        else (None, "NotYet", "its Machines are looked at soon")
        for one in found
    )


def _progressing(view: DeclaredView) -> Said:
    running, verdict = view.observed.running, view.verdict
    if running is not None:
        message = f"{running.operation} runs as Job {running.job}"
        if deleting(view.deployment) and running.operation != RESET:
            message += f"; the deletion waits for its end, or for annotation {CANCEL_ANNOTATION}={running.sequence}"
        if running.obstacle is not None:
            return True, running.obstacle.reason, f"{message}: {running.obstacle.message}"
        return True, _word(running.operation), message
    if isinstance(verdict, CurrentOperation):
        return True, _word(verdict.operation), f"{verdict.operation} begins: {verdict.why}"
    if isinstance(verdict, Wait):
        return verdict.reason in BY_ITSELF, str(verdict.reason), verdict.message
    if deleting(view.deployment):
        return True, "Deleting", "there is nothing to reset, and the object goes"
    return False, "UpToDate", "there is nothing to do"


def _degraded(view: DeclaredView, moment: datetime) -> Said:
    verdict = view.verdict
    if isinstance(verdict, Wait) and verdict.reason in NO_HELP:
        return True, str(verdict.reason), verdict.message
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
    silent = [parse_time(one.last_transition_time) for one in _unreachable(view)]
    if not silent:
        return 0.0
    past = view.observed.history[0].ended if view.observed.history else None
    since = [max(silent)] if view.observed.running is not None else [parse_time(past)] if past is not None else []
    return max([0.0, *(RESTART_SECONDS - (moment - one).total_seconds() for one in since)])


def _unreachable(view: DeclaredView) -> list[Condition]:
    """Return what the machines that are deployed as nodes say, where all of them say that the API is silent."""
    deployed = {host.machine for host in view.observed.applied.hosts} if view.observed.applied is not None else set()
    nodes = [
        one
        for machine in view.machines
        for one in machine.status.conditions
        if one.type == NODE_READY and machine.metadata.name in deployed
    ]
    return nodes if all(one.reason == API_UNREACHABLE for one in nodes) else []


def _machines(view: DeclaredView, sets: Sequence[Json]) -> Said:
    ready, wanted = sum(map(_ready, view.machines)), _wanted(view)
    if ready >= wanted and ready == len(view.machines):
        return True, "AllReady", f"{ready} of {wanted} machines are ready"
    found = [c for one in sets for c in dig(one, "status", "conditions") or []]
    lacking = [c["message"] for c in found if c["status"] == "False" and c.get("message")]
    others = [f"{m.metadata.name} is {m.status.phase or 'Pending'}" for m in view.machines if not _ready(m)]
    return False, "WaitingForMachines", "; ".join((f"{ready} of {wanted} machines are ready", *lacking, *others))


def _control_planes(view: DeclaredView) -> Said:
    if view.observed.applied is None:
        return False, "NotDeployed", "there is no cluster yet"
    ready, planes = {machine.metadata.name for machine in view.machines if _ready(machine)}, _planes(view)
    late = [host.machine for host in planes if host.machine not in ready]
    if late or not planes:
        return False, "NotReady", f"not ready: {', '.join(late) or 'there is no control plane'}"
    return True, "AllReady", ""


def _ready_at_all(view: DeclaredView, progressing: Said, degraded: Said, parts: Sequence[Said]) -> Said:
    if degraded[0]:
        return False, degraded[1], degraded[2]
    if not isinstance(view.verdict, Nothing) or view.observed.applied is None:
        return False, progressing[1], progressing[2]
    if deleting(view.deployment):
        return False, "Deleting", "it is being deleted"
    return next((said for said in parts if said[0] is False), (True, "Ready", ""))


def _ready(machine: DeclaredMachine) -> bool:
    return machine.status.phase == "Ready"


def _wanted(view: DeclaredView) -> int:
    return sum(one.replicas for one in view.wish.spec.machine_sets) if view.wish is not None else 0


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


def _word(operation: str) -> str:
    """Return an operation's name as a condition's reason: RemoveNode for remove-node."""
    return "".join(part.capitalize() for part in operation.split("-"))


class ClusterDeploymentController:
    """Reconciles ClusterDeployments."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller("clusterdeployment", self.reconcile)
        queue = self.controller.queue
        follow(looks.deployments, queue)
        follow(looks.clusters, queue)
        follow_children(looks.sets, CLUSTER_DEPLOYMENT, queue)
        follow_claims(looks.machines, queue)
        follow_backups(looks, queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one ClusterDeployment; change one thing."""
        view = self._looks.view(key)
        if view is None:
            self._orphan(key)
            return None
        try:
            if self._finalizer(view) or self._scaled(view) or self._children(view):
                return 0.0
        except FormerObject:
            return FORMER_SECONDS
        self._status(view)
        now = datetime.now(UTC)
        turns = (_backups(view, now).turns, _proof(view, now).turns)
        stale = [(turn - now).total_seconds() for turn in turns if turn is not None]
        waits = (_silence_left(view, now) or None, again_for(view.wish), *stale)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _orphan(self, key: Key) -> None:
        """Delete the Cluster of an object that went without its finalizer: somebody has taken it off by hand."""
        found = self._looks.clusters.get(*key)
        if found is None or deleting(found) or UID_LABEL not in labels_of(found):
            return
        owned = bool(found["metadata"].get("ownerReferences"))
        if not owned and self._cluster.get(CLUSTER_DEPLOYMENT, key[1], key[0]) is None:
            self._cluster.delete(CLUSTER, key[1], key[0])

    def _finalizer(self, view: DeclaredView) -> bool:
        """Put the finalizer on, or take it off; tell whether that was to do."""
        finalizers = view.deployment["metadata"].get("finalizers") or []
        has = RESET_FINALIZER in finalizers
        if has == _needed(view, has=has):
            return False
        namespace, name = view.key
        if has:
            found = self._cluster.get(CLUSTER, name, namespace)  # the local copy may be older than an operation
            mine = found is not None and owned_by(found, view.deployment)
            if _needed(self._looks.seen(view.deployment, found if mine else None), has=True):
                return False
            if deleting(view.deployment):
                self._cluster.delete(CLUSTER, name, namespace)
        others = [one for one in finalizers if one != RESET_FINALIZER]
        patch = {"metadata": {"finalizers": others if has else [*others, RESET_FINALIZER]}}
        self._looks.deployments.merge(view.deployment, patch)
        return True

    def _scaled(self, view: DeclaredView) -> bool:
        """Take over the number of a set that somebody scaled, unless the cluster must not have it: tell whether it was.

        What is not taken over is put back like any edit, and the condition `Edited` of the set says why.
        """
        if view.wish is None or view.mistakes or deleting(view.deployment):
            return False
        for one in self._looks.sets.by(of_uid, view.deployment["metadata"]["uid"]):
            spec = scaled(one, view.deployment)
            if spec is None:
                continue
            after = {**view.deployment, "spec": {**view.deployment["spec"], **spec}}
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
        status = status_of(view, sets, datetime.now(UTC))
        if status != view.deployment.get("status"):
            self._looks.deployments.replace_status(view.deployment, status)


def _needed(view: DeclaredView, *, has: bool) -> bool:
    """Tell whether the deletion of an object has to wait for a reset."""
    if view.wish is None:
        return has and view.observed.touched
    if view.wish.spec.deletion.machines != "Reset":
        return False
    if deleting(view.deployment):
        return has and not (view.observed.running is None and isinstance(view.verdict, Nothing))
    return has or view.observed.sequence > 0 or not view.mistakes


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(ClusterDeploymentController(context).controller)
