"""What people declare, of both kinds in one place: ClusterDeployments, and EtcdClusters as the ones that they would be.

Both have a Cluster of their name, so one name of a namespace is one object's: the older one's. Whatever reads a wish,
claims Machines for it or says what became of it asks here, and needs to know nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer, Informers, Key, key_of, labels_of
from harness.kube.objects import owner_reference
from harness.kube.reconcile import Queue, follow_children, owner_key
from harness.kube.resources import Resource
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, DECLARED, ETCD_CLUSTER, KIND_LABEL
from harness.operator.decide.etcdclusters import WRITTEN, as_deployment, elder, is_etcd


def of_etcd(cluster: Json | None) -> bool:
    """Tell whether a Cluster is that of an EtcdCluster."""
    return cluster is not None and labels_of(cluster).get(KIND_LABEL) == ETCD_CLUSTER.kind


def resource_of(deployment: Json) -> Resource:
    """Return the kind of an object."""
    return ETCD_CLUSTER if is_etcd(deployment) else CLUSTER_DEPLOYMENT


def owner_of(deployment: Json) -> Json:
    """Return the reference that makes an object the controller of another."""
    return owner_reference(deployment, resource_of(deployment))


def declared_key(child: Json) -> Key | None:
    """Return the key of what an object was made for, if its controller is of either kind."""
    return next((key for kind in DECLARED if (key := owner_key(child, kind)) is not None), None)


def follow_declared(children: Informer, queue: Queue) -> None:
    """Have every change of a child put what it was made for into a queue; call it before the informers start."""
    for kind in DECLARED:
        follow_children(children, kind, queue)


def declared_now(api: Cluster, key: Key) -> Json | None:
    """Return the object that has a name, as the API has it."""
    objects = [api.get(kind, key[1], key[0]) for kind in DECLARED]
    chosen = elder(objects[0], objects[1])
    return as_deployment(chosen) if chosen is not None else None


class Declarations:
    """The local copies of both kinds; what it hands out and takes is in the form of a ClusterDeployment."""

    def __init__(self, informers: Informers) -> None:
        self._of = {kind: informers.of(kind) for kind in DECLARED}

    def subscribe(self, listener: Callable[[str, Json], None]) -> None:
        """Add a listener to both; do so before the start."""
        for informer in self._of.values():
            informer.subscribe(listener)

    def get(self, namespace: str, name: str) -> Json | None:
        """Return the object that has a name."""
        objects = [informer.get(namespace, name) for informer in self._of.values()]
        chosen = elder(objects[0], objects[1])
        return as_deployment(chosen) if chosen is not None else None

    def of_kind(self, kind: Resource, key: Key) -> Json | None:
        """Return an object of one kind, whether or not it has its name."""
        obj = self._of[kind].get(*key)
        return as_deployment(obj) if obj is not None else None

    def list(self, namespace: str | None = None) -> list[Json]:
        """Return all objects (of one namespace, or of all), but for those whose name an older one has."""
        deployments, etcds = (informer.list(namespace) for informer in self._of.values())
        if not etcds:
            return deployments
        named: dict[Key, Json] = {}
        for obj in (*deployments, *etcds):
            named[key_of(obj)] = elder(named.get(key_of(obj)), obj) or obj
        return [as_deployment(obj) for obj in named.values()]

    def merge(self, deployment: Json, patch: Json) -> Json:
        """Merge a patch into an object as it was seen. Raises ApiFailure, above all a conflict."""
        written = self._of[resource_of(deployment)].merge(deployment.get(WRITTEN, deployment), patch)
        return as_deployment(written)

    def replace_status(self, deployment: Json, status: Json) -> None:
        """Give an object as it was seen another status as a whole. Raises: as merge."""
        self._of[resource_of(deployment)].replace_status(deployment.get(WRITTEN, deployment), status)
