"""Networks: what each cluster has of a ClusterNetworkPool, written in the pool first and in the Cluster afterwards.

A manager that is killed between both finds its own entry in the pool. An entry is given up once its ClusterDeployment,
which waits for the reset of its machines, is gone.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow
from harness.operator.api.cluster import NetworksState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.conditions import AVAILABLE, new, with_conditions
from harness.operator.api.networks import ClusterNetworkPool, PoolAllocation
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_NETWORK_POOL
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.decide.networks import NetworksRefused, allocation, available

COMPONENT = "networks"


class NetworksController:
    """Allocates networks, and gives them up."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._namespace = context.namespace
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._clusters = context.informers.of(CLUSTER)
        self._pools = context.informers.of(CLUSTER_NETWORK_POOL)
        self.controller = Controller("networks", self.reconcile, workers=1)
        queue = self.controller.queue
        follow(self._deployments, queue)
        follow(self._clusters, queue)
        self._pools.subscribe(self._changed)

    def _changed(self, _: str, pool: Json) -> None:
        for key in self._concerned(pool):
            self.controller.queue.add(key)

    def _concerned(self, pool: Json) -> set[Key]:
        """Return the clusters that have something of a pool, or want it; those of other managers' namespaces aside."""
        name = pool["metadata"]["name"]
        entries = (PoolAllocation.model_validate(entry) for entry in dig(pool, "status", "allocations") or ())
        keys = {(entry.namespace, entry.cluster) for entry in entries}
        for deployment in self._deployments.list():
            if dig(deployment, "spec", "network", "pool") == name:
                keys.add((deployment["metadata"]["namespace"], deployment["metadata"]["name"]))
        return {key for key in keys if self._namespace in (None, key[0])}

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; a change of an object or of its pool brings the next look."""
        deployment, cluster = self._deployments.get(*key), self._clusters.get(*key)
        self._give_up(key, deployment["metadata"]["uid"] if deployment is not None else None)
        if deployment is None or cluster is None or deleting(deployment) or not owned_by(cluster, deployment):
            return None
        before = dig(cluster, "status", "networks")
        if dig(before, "allocated"):
            return None
        try:
            wish = ClusterDeployment.model_validate(deployment)
        except ValidationError:
            return None
        if wish.spec.network.pool is None:
            return None
        state = self._allocated(wish, wish.spec.network.pool)
        told = state.model_dump(mode="json", by_alias=True, exclude_none=True)
        if told != before:
            self._clusters.merge_status(cluster, {"networks": told})
            say = self._events.normal if state.allocated else self._events.warning
            message = state.message or f"pods {state.pods}, Services {state.services}, VXLAN {state.vni}"
            say(deployment, state.reason, message, component=COMPONENT)
        return None

    def _allocated(self, wish: ClusterDeployment, name: str) -> NetworksState:
        """Return what a cluster has of a pool, which the pool's status says by then."""
        pool = self._pools.get("", name)
        if pool is None:
            message = f"spec.network.pool: there is no ClusterNetworkPool {name}: create it, or name another"
            return NetworksState(pool=name, reason="NoSuchPool", message=message)
        known = ClusterNetworkPool.model_validate(pool)
        try:
            mine = allocation(known, wish)
        except NetworksRefused as refused:
            self._write(pool, known.status.allocations)
            return NetworksState(pool=name, reason=refused.reason, message=str(refused))
        if mine not in known.status.allocations:
            self._write(pool, (*known.status.allocations, mine))
        of = mine.model_dump(include={"pods", "services", "ipv6_pods", "ipv6_services", "vni", "port"})
        return NetworksState(pool=name, allocated=True, reason="Allocated", **of)

    def _give_up(self, key: Key, uid: str | None) -> None:
        """Take entries of clusters of a name out of all pools that are not of the present object."""
        for pool in self._pools.list():
            entries = ClusterNetworkPool.model_validate(pool).status.allocations
            left = [entry for entry in entries if (entry.namespace, entry.cluster) != key or entry.uid == uid]
            if len(left) == len(entries):
                continue
            deployment = self._cluster.get(CLUSTER_DEPLOYMENT, key[1], key[0])  # the local copy may be behind
            if dig(deployment, "metadata", "uid") == uid:
                self._write(pool, left)

    def _write(self, pool: Json, entries: tuple[PoolAllocation, ...] | list[PoolAllocation]) -> None:
        """Write a pool's status, if it is another one.

        Raises:
            ApiFailure: above all a conflict: another manager has written since.
        """
        known = ClusterNetworkPool.model_validate(pool)
        generation = pool["metadata"].get("generation")
        told = new(AVAILABLE, *available(known, entries), datetime.now(UTC), generation)
        status = {
            "allocations": [entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in entries],
            "conditions": with_conditions(dig(pool, "status", "conditions") or [], told),
        }
        if status != pool.get("status"):
            self._pools.replace_status(pool, status)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(NetworksController(context).controller)
