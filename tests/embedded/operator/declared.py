"""Objects of the operator's kinds as people and other controllers write them, and what is waited for in them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.kube.client import Json
from harness.kube.objects import condition, dig, now, owner_reference
from harness.kube.resources import SECRET, Resource
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE, MACHINE_SET
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.waiting import AwaitedObjects
from tests.unit.operator.api import objects

POOL = {"rack": "a"}


@dataclass(frozen=True)
class Declared(AwaitedObjects):
    """The objects of one namespace, as they are made."""

    def key(self, private_key: Path | str, name: str = "keys") -> None:
        """Make the Secret of a private key, given as a file or as its text."""
        content = private_key.read_bytes() if isinstance(private_key, Path) else private_key.encode()
        data = {"ssh-privatekey": base64.b64encode(content).decode()}
        self.api.create(SECRET, SECRET.manifest(name, self.namespace, labels={}, data=data))

    def machine(self, name: str, **spec: Any) -> Json:
        """Make a Machine of the pool."""
        body = objects.machine(name, self.namespace, **spec)
        body["metadata"]["labels"] = dict(POOL)
        return self.api.create(MACHINE, body)

    def deployment(self, name: str, *sets: Json, **spec: Any) -> Json:
        """Make a ClusterDeployment, and what other controllers derive from it: its MachineSets and its Cluster."""
        body = objects.deployment(*sets, name=name, namespace=self.namespace, **spec)
        made = self.api.create(CLUSTER_DEPLOYMENT, body)
        labels = {CLUSTER_LABEL: name}
        for wanted in body["spec"]["machineSets"]:
            child = MACHINE_SET.manifest(f"{name}-{wanted['name']}", self.namespace, labels=labels, spec=wanted)
            self._own(MACHINE_SET, child, made)
        self._own(CLUSTER, CLUSTER.manifest(name, self.namespace, labels=labels), made)
        return made

    def _own(self, kind: Resource, child: Json, owner: Json) -> None:
        child["metadata"]["ownerReferences"] = [owner_reference(owner, CLUSTER_DEPLOYMENT)]
        self.api.create(kind, child)

    def works(self, cluster: str, operation: str, *machines: str) -> None:
        """Let an operation run on machines."""
        running = {"sequence": 1, "operation": operation, "attempt": 1, "machines": list(machines), "started": now()}
        self._status(cluster, {"operation": running, "sequence": 1})

    def worked(self, cluster: str, operation: str, *machines: str, outcome: str = "succeeded") -> None:
        """Let an operation end; these are the cluster's machines afterwards."""
        past = {"sequence": 1, "operation": operation, "attempt": 1, "outcome": outcome, "ended": now()}
        applied = {"digest": "d", "version": "1.36.3", "machines": list(machines)} if machines else None
        self._status(cluster, {"operation": None, "applied": applied, "history": [past]})

    def _status(self, cluster: str, status: Json) -> None:
        self.api.merge(CLUSTER, cluster, {"status": status}, self.namespace, subresource="status")

    def phase(self, name: str, phase: str) -> Json:
        """Return a Machine once it is in a phase."""
        return self.wait(name, lambda found: dig(found, "status", "phase") == phase, phase)

    def reason(self, name: str, kind: str, reason: str) -> Json:
        """Return a Machine's condition once it has a reason."""
        found = self.wait(name, lambda one: (condition(one, kind) or {}).get("reason") == reason, f"{kind}: {reason}")
        said = condition(found, kind)
        assert said is not None
        return said

    def said(self, name: str, event: str) -> None:
        """Wait until there is an event about an object that begins so."""

        def probe() -> bool | NotYet:
            found = self.api.events_of(self.namespace, name)
            return any(one.startswith(event) for one in found) or NotYet(f"there are {found}")

        until(probe, deadline=Deadline.after(self.seconds), what=f"the event {event!r}", interval=self.interval)

    def claimed(self, cluster: str) -> Sequence[str]:
        """Return the names of the Machines that a cluster has claimed."""
        found = self.api.list(MACHINE, self.namespace).items
        return sorted(m["metadata"]["name"] for m in found if dig(m, "spec", "claim", "cluster") == cluster)
