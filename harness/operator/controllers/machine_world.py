"""What a Machine's controllers look at besides the Machine: its cluster, its set, and others with its machine-id."""

from __future__ import annotations

import threading

from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import deleting, dig
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_conditions import first_of_twins

NO_KEYS: frozenset[Key] = frozenset()


class MachineWorld:
    """The local copies that Machines are judged by."""

    def __init__(self, context: OperatorContext) -> None:
        self.machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._sets = context.informers.of(MACHINE_SET)
        self._ids: dict[Key, str] = {}
        self._keys: dict[str, frozenset[Key]] = {}
        self._lock = threading.Lock()
        self.machines.subscribe(self.index)

    def index(self, event: str, machine: Json) -> None:
        """Take in a Machine's machine-id as it was written or watched."""
        key = key_of(machine)
        now = "" if event == "DELETED" else dig(machine, "status", "facts", "machineID") or ""
        with self._lock:
            before = self._ids.pop(key, "")
            if before:
                self._keys[before] = self._keys[before] - {key}
            if now:
                self._ids[key] = now
                self._keys[now] = self._keys.get(now, NO_KEYS) | {key}

    def same_id(self, machine: Json) -> frozenset[Key]:
        """Return the other Machines with a Machine's machine-id."""
        with self._lock:
            known = self._keys.get(dig(machine, "status", "facts", "machineID") or "", NO_KEYS)
        return known - {key_of(machine)}

    def twin(self, machine: Json) -> Json | None:
        """Return the Machine because of which this one cannot be used, as they have the same machine-id."""
        others = (self.machines.get(*key) for key in self.same_id(machine))
        return first_of_twins(machine, [other for other in others if other is not None and not deleting(other)])

    def cluster(self, machine: Json) -> Json | None:
        """Return the Cluster that a Machine's claim names."""
        return _claimed(machine, self._clusters)

    def deployment(self, machine: Json) -> Json | None:
        """Return the ClusterDeployment that a Machine's claim names."""
        return _claimed(machine, self._deployments)

    def roles(self, machine: Json) -> list[str]:
        """Return what a Machine is in its cluster; what it was told last, where its set is gone already."""
        claim = dig(machine, "spec", "claim")
        if not claim:
            return []
        found = self._sets.get(machine["metadata"]["namespace"], f"{claim['cluster']}-{claim['set']}")
        return list(dig(found, "spec", "roles") or dig(machine, "status", "roles") or [])


def _claimed(machine: Json, informer: Informer) -> Json | None:
    name = dig(machine, "spec", "claim", "cluster")
    return informer.get(machine["metadata"]["namespace"], name) if name else None
