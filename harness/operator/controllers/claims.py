"""Claims that nobody needs any more are given up: of clusters and sets that are gone, and beyond what a set wants.

A Machine that its cluster has something on is kept: an operation has to take it out first. What the local copies say
is asked of the API again before a claim is given up.
"""

from __future__ import annotations

from functools import partial

from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import dig
from harness.kube.reconcile import Controller
from harness.kube.resources import POD
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_needless import needless

COMPONENT = "claims-controller"
ENDED = frozenset({"Succeeded", "Failed"})
AGAIN_SECONDS = 2.0  # while an executor of a deleted cluster ends: its pod has half a minute for that


class ClaimsController:
    """Gives up claims of Machines."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._machines = context.informers.of(MACHINE)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._clusters = context.informers.of(CLUSTER)
        self._say = partial(context.events.normal, component=COMPONENT)
        self.controller = Controller("claims", self.reconcile, workers=1)
        self._machines.subscribe(lambda _, machine: self.controller.queue.add(key_of(machine)))
        for informer in (self._clusters, self._deployments):
            informer.subscribe(self._cluster_changed)

    def _cluster_changed(self, _: str, cluster: Json) -> None:
        namespace, name = key_of(cluster)
        for machine in self._machines.list(namespace):
            if dig(machine, "spec", "claim", "cluster") == name:
                self.controller.queue.add(key_of(machine))

    def reconcile(self, key: Key) -> float | None:
        """Look at one Machine."""
        machine = self._machines.get(*key)
        name = dig(machine, "spec", "claim", "cluster")
        if machine is None or not name:
            return None
        of_namespace = self._machines.list(key[0])
        known = self._deployments.get(key[0], name), self._clusters.get(key[0], name)
        if not needless(machine, *known, of_namespace):
            return None
        now = self._cluster.get(CLUSTER_DEPLOYMENT, name, key[0]), self._cluster.get(CLUSTER, name, key[0])
        why = needless(machine, *now, of_namespace)
        if not why:
            return None
        if now[0] is None and self._executor_runs(key[0], name):
            return AGAIN_SECONDS
        patch = {"metadata": {"resourceVersion": machine["metadata"]["resourceVersion"]}, "spec": {"claim": None}}
        written = self._cluster.merge(MACHINE, key[1], patch, key[0])
        self._machines.observe(written)
        self._say(written, "Released", why)
        return None

    def _executor_runs(self, namespace: str, name: str) -> bool:
        """Tell whether a pod of a cluster that is gone may still be changing its machines."""
        pods = self._cluster.list(POD, namespace, labels=f"{CLUSTER_LABEL}={name}").items
        return any(dig(pod, "status", "phase") not in ENDED for pod in pods)


def start(context: OperatorContext) -> None:
    """Hand the controller of claims to the manager."""
    context.run(ClaimsController(context).controller)
