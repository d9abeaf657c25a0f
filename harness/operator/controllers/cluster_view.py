"""Everything that is known of one cluster at a moment, and what follows from it: read from local copies, never kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from harness.kube.client import Cluster, Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import controller_of, deleting, dig, phase
from harness.kube.reconcile import Queue
from harness.kube.resources import CONFIG_MAP, JOB, JOB_NAME_LABEL, POD
from harness.operator.api.cluster import CurrentOperation, DeclaredCluster
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.etcd import EtcdBackup, EtcdRestore
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import (
    CANCEL_ANNOTATION,
    CLUSTER,
    CLUSTER_LABEL,
    ETCD_BACKUP,
    ETCD_RESTORE,
    MACHINE,
    MACHINE_SET,
    UID_LABEL,
)
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import Declarations, resource_of
from harness.operator.controllers.machine_phase import claimed_by, without_claim
from harness.operator.decide.accepted import judged
from harness.operator.decide.desired import Desired, desired
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.endpoint import taken
from harness.operator.decide.etcdclients import clients_of, variables_around
from harness.operator.decide.etcdclusters import is_etcd
from harness.operator.decide.observed import Observed, observed
from harness.operator.decide.operations import Verdict, next_operation
from harness.operator.decide.product_file import KnownProduct, in_config_map
from harness.operator.decide.variables import load_releases

AGAIN_SECONDS = 30.0  # pacing: ConfigMaps are not watched, because a namespace has many that are none of ours


def product_of(cluster: Cluster, wish: ClusterDeployment | None) -> tuple[KnownProduct | None, Sequence[SpecMistake]]:
    """Return the product of a wish, None where it names none or one that cannot be used, and what is wrong with it."""
    source = wish.spec.playbooks.product if wish is not None else None
    if wish is None or source is None:
        return None, ()
    return in_config_map(cluster.get(CONFIG_MAP, source.config_map, wish.metadata.namespace), source.config_map)


def again_for(wish: ClusterDeployment | None) -> float | None:
    """Return after how many seconds the product file of a wish is read again, None where it names none."""
    return AGAIN_SECONDS if wish is not None and wish.spec.playbooks.product is not None else None


@dataclass(frozen=True)
class DeclaredView:
    """One cluster. wish: None where the object has not even the form of one.  cluster: None before there is one."""

    deployment: Json
    wish: ClusterDeployment | None
    mistakes: tuple[str, ...]
    cluster: Json | None
    machines: tuple[DeclaredMachine, ...]
    desired: Desired | None
    observed: Observed
    verdict: Verdict

    @property
    def key(self) -> Key:
        """Return its namespace and name."""
        return key_of(self.deployment)


@dataclass(frozen=True)
class Workable(DeclaredView):
    """A cluster for which operations can be decided: there is a Cluster, and its wish has the form of one."""

    wish: ClusterDeployment
    cluster: Json
    desired: Desired

    def wants(self, running: CurrentOperation) -> bool:
        """Tell whether the same operation would be decided now, if it did not run."""
        again = next_operation(self.desired, replace(self.observed, running=None))
        same = (running.operation, running.digest)
        return isinstance(again, CurrentOperation) and (again.operation, again.digest) == same and not self.cancelled

    @property
    def cancelled(self) -> bool:
        """Tell whether somebody wants the operation that runs to be stopped."""
        running = self.observed.running
        return running is not None and is_cancelled(self.deployment, {"sequence": running.sequence})

    @staticmethod
    def of(view: DeclaredView | None) -> Workable | None:
        """Return the cluster of a view; None where there is none, or it is being deleted."""
        if view is None or view.cluster is None or deleting(view.cluster) or view.wish is None or view.desired is None:
            return None
        return Workable(**vars(view))


class ClusterLooks:
    """Looks at clusters in the local copies of one manager."""

    def __init__(self, context: OperatorContext) -> None:
        self.deployments = Declarations(context.informers)
        self.clusters = context.informers.of(CLUSTER)
        self.sets = context.informers.of(MACHINE_SET)
        self.machines = context.informers.of(MACHINE)
        self.jobs = context.informers.of(JOB, labels=CLUSTER_LABEL)
        self.pods = context.informers.of(POD, labels=CLUSTER_LABEL)
        self.backups = context.informers.of(ETCD_BACKUP)
        self.restores = context.informers.of(ETCD_RESTORE)
        self._cluster = context.cluster
        self._image = context.options.executor_image

    def view(self, key: Key) -> DeclaredView | None:
        """Look at one cluster; None when there is no ClusterDeployment and no EtcdCluster of the name."""
        deployment, cluster = self.deployments.get(*key), self.clusters.get(*key)
        if deployment is None:
            return None
        return self.seen(deployment, cluster if cluster is not None and owned_by(cluster, deployment) else None)

    def seen(self, deployment: Json, cluster: Json | None) -> DeclaredView:
        """Look at a ClusterDeployment with its Cluster; the Machines are those of the local copy."""
        machines = self._claimed(deployment, cluster)
        state = DeclaredCluster.model_validate(cluster) if cluster is not None else None
        backups = [
            EtcdBackup.model_validate(backup) for backup in self.backups.list(deployment["metadata"]["namespace"])
        ]
        restores = [
            EtcdRestore.model_validate(restore) for restore in self.restores.list(deployment["metadata"]["namespace"])
        ]
        world = observed(state, machines, datetime.now(UTC), backups, restores)
        wish, mistakes_of_wish = judged(deployment, machines, world, self._image)
        product, unusable = product_of(self._cluster, wish)
        mistakes = tuple(mistake.text for mistake in (*mistakes_of_wish, *unusable))
        if wish is None:
            verdict: Verdict = Wait(WaitReason.NOT_ACCEPTED, "; ".join(mistakes))
            return DeclaredView(deployment, None, mistakes, cluster, machines, None, world, verdict)
        world = replace(world, taken=str(taken(deployment, self.deployments.list, self.machines.list) or ""))
        if is_etcd(deployment):
            clients = clients_of(deployment, self.clusters.list(deployment["metadata"]["namespace"]))
            world = replace(world, clients=clients)
        if wish.spec.etcd.backup.drill is not None:  # what is in use counts for nothing else, and all Clusters tell it
            world = replace(world, claims_in_use=self._claims_in_use(deployment))
        around = variables_around(wish, world)
        desired_cluster = desired(wish, machines, load_releases(), world.applied, mistakes, product, around)
        if product is not None and (lacking := product.lacking(desired_cluster.variables)):
            mistakes = (*mistakes, *(mistake.text for mistake in lacking))
            desired_cluster = replace(desired_cluster, refused=mistakes)
        verdict = next_operation(desired_cluster, world)
        return DeclaredView(deployment, wish, mistakes, cluster, machines, desired_cluster, world, verdict)

    def _claims_in_use(self, deployment: Json) -> dict[str, str]:
        """Return by claim which operation of another cluster of the namespace has it."""
        namespace, own = key_of(deployment)
        running = ((cluster, dig(cluster, "status", "operation") or {}) for cluster in self.clusters.list(namespace))
        return {
            claim: f"{operation['operation']} of cluster {cluster['metadata']['name']}"
            for cluster, operation in running
            if cluster["metadata"]["name"] != own and (claim := dig(operation, "snapshot", "claim"))
        }

    def pods_of(self, namespace: str, job: str) -> list[Json]:
        """Return the pods of a Job, the latest first."""
        return latest_first(self.pods.by(_job, (namespace, job)))

    def _claimed(self, deployment: Json, cluster: Json | None) -> tuple[DeclaredMachine, ...]:
        """Return the Machines of a cluster: also those whose claim somebody removed, until it is put back."""
        uid = deployment["metadata"]["uid"]
        machines = [m for m in claimed_by(self.machines, key_of(deployment)) if dig(m, "spec", "claim", "uid") == uid]
        machines += without_claim(self.machines, cluster, uid) if cluster is not None else []
        return tuple(DeclaredMachine.model_validate(machine) for machine in machines)


def cluster_gone(name: str, view: DeclaredView | None) -> str:
    """Return that the cluster which an object names is going, or is not there; `view`: None where it is not."""
    if view is None:
        return f"there is no ClusterDeployment and no EtcdCluster {name}"
    return f"{resource_of(view.deployment).kind} {name} is being deleted"


def follow_clients(looks: ClusterLooks, queue: Queue) -> None:
    """Have every change of what a cluster has of an EtcdCluster put that into a queue; call it before the start."""

    def changed(_: str, cluster: Json) -> None:
        if name := dig(cluster, "status", "etcdClient", "cluster"):
            queue.add((key_of(cluster)[0], name))

    looks.clusters.subscribe(changed)


def follow_backups(looks: ClusterLooks, queue: Queue) -> None:
    """Have every change of an EtcdBackup or EtcdRestore put its cluster into a queue, and those that are to restore it.

    Call it before the informers start.
    """

    def changed(_: str, backup: Json) -> None:
        namespace, name = key_of(backup)
        restores = (restore for restore in looks.restores.list(namespace) if restore["spec"]["backup"] == name)
        for obj in (backup, *restores):
            queue.add((namespace, obj["spec"]["cluster"]))

    looks.backups.subscribe(changed)
    looks.restores.subscribe(lambda _, restore: queue.add((key_of(restore)[0], restore["spec"]["cluster"])))


def _job(pod: Json) -> Key:
    """Return the Job that a pod belongs to."""
    return pod["metadata"]["namespace"], labels_of(pod).get(JOB_NAME_LABEL, "")


def of_uid(child: Json) -> str | None:
    """Return the ClusterDeployment that an object is made for, by its uid; to find all objects of one."""
    return labels_of(child).get(UID_LABEL) or (controller_of(child) or {}).get("uid")


def owned_by(child: Json, owner: Json) -> bool:
    """Tell whether an object is this very owner's, and not that of an earlier one of the same name."""
    uid = owner["metadata"]["uid"]
    return uid in (labels_of(child).get(UID_LABEL), (controller_of(child) or {}).get("uid"))


OVER = ("Succeeded", "Failed")  # phases of a pod that does not run any more


def final_pods(api: Cluster, job: Json, pods: Sequence[Json]) -> list[Json]:
    """Return the pods of a Job that has ended, the latest first.

    The copies of Jobs and of pods are not of one moment: where a pod has not ended in its copy, the API is asked.

    Args:
        pods: as the local copy has them.
    """
    if not pods or any(phase(pod) not in OVER for pod in pods):
        namespace, name = key_of(job)
        pods = api.list(POD, namespace, labels=f"{JOB_NAME_LABEL}={name}").items
    return latest_first(pods)


def latest_first(pods: Iterable[Json]) -> list[Json]:
    """Return pods by when they were made."""
    return sorted(pods, key=lambda pod: str(dig(pod, "metadata", "creationTimestamp")), reverse=True)


def still_run(api: Cluster, namespace: str, labels: str) -> bool:
    """Tell whether executors' pods with these labels, as the API has them, may still be changing machines."""
    return any(phase(pod) not in OVER for pod in api.list(POD, namespace, labels=labels).items)


def is_cancelled(deployment: Json | None, operation: Json) -> bool:
    """Tell whether somebody wants an operation to be stopped. A number of another operation counts for nothing."""
    asked = dig(deployment, "metadata", "annotations", CANCEL_ANNOTATION)
    return asked is not None and asked == str(operation["sequence"])
