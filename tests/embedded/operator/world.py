"""A namespace with one declared cluster: what people, machine controllers and executors do there, without machines."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.kube.resources import SECRET, Resource
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.context import OperatorOptions
from harness.operator.execute.inputs import state_name
from harness.operator.execute.termination import Termination
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS, PlayedKubelet
from tests.unit.operator.api.objects import deployment, wanted_set

T = TypeVar("T")
NAME = "guest"
IMAGE = "registry.invalid/vmatrix:1"  # nothing pulls it
MINE = ("clusterdeployment", "authority", "clusterinstall", "executions")  # controllers that need no machine
OPTIONS = OperatorOptions(executor_image=IMAGE)
KUBECONFIG = b"the kubeconfig of a guest"
SUCCEEDED = Termination("succeeded").to_text()
ACTIVE = {"type": "Reachable", "status": "True", "reason": "LoggedIn", "message": ""}


def failed(blame: str, **said: str) -> str:
    """Return the message of an executor that failed."""
    return Termination("failed", blame=blame, **{"summary": "it broke", **said}).to_text()  # type: ignore[arg-type]


@dataclass
class World:
    """One declared cluster and its surroundings."""

    api: Cluster
    namespace: str
    kubelet: PlayedKubelet
    given: list[str] = field(default_factory=list)
    body: Json = field(default_factory=dict)

    def wait(self, probe: Callable[[], T | NotYet], what: str) -> T:
        """Wait for what a probe returns."""
        return until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)

    def declare(self, *, machines: int = 1, replicas: int = 0, **spec: Any) -> Json:
        """Create the ClusterDeployment and give it machines, as the controllers of machines would.

        Args:
            replicas: how many it wants, if not as many as it gets.
        """
        sets = [wanted_set("cp", "control-plane", "worker", replicas=replicas or machines or 1)]
        self.body = deployment(*sets, name=NAME, namespace=self.namespace, **spec)
        made = self.api.create(CLUSTER_DEPLOYMENT, self.body)
        for number in range(machines):
            self.give(f"m-{number}", made)
        return made

    def give(self, name: str, to: Json | None, *, set_name: str = "cp") -> Json:
        """Create a Machine that can be logged in to, claimed by a ClusterDeployment."""
        claim = {"cluster": NAME, "set": set_name, "uid": to["metadata"]["uid"]} if to is not None else None
        address = f"192.0.2.{len(self.given) + 10}"
        spec = {"address": address, "user": "root", "keyRef": {"name": "keys"}, **({"claim": claim} if claim else {})}
        meta = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": MACHINE.api_version, "kind": "Machine", "metadata": meta, "spec": spec}
        made = self.api.create(MACHINE, body)
        self.given.append(name)
        self.say(name, "Claimed")
        return made

    def say(self, machine: str, phase: str) -> None:
        """Give a Machine a phase."""
        reachable = {**ACTIVE, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": phase, "conditions": [reachable]}
        self.api.merge(MACHINE, machine, {"status": status}, self.namespace, subresource="status")

    def edit(self, **spec: Any) -> Json:
        """Change fields of the ClusterDeployment's spec."""
        return self.api.merge(CLUSTER_DEPLOYMENT, NAME, {"spec": spec}, self.namespace)

    def annotate(self, **annotations: str | None) -> Json:
        """Set annotations of the operator's group."""
        found = {f"cluster.vmatrix.dev/{name}": value for name, value in annotations.items()}
        return self.api.merge(CLUSTER_DEPLOYMENT, NAME, {"metadata": {"annotations": found}}, self.namespace)

    def get(self, kind: Resource, name: str = NAME) -> Json | None:
        """Return an object of the namespace."""
        return self.api.get(kind, name, self.namespace)

    def status(self) -> Json:
        """Return the Cluster's status."""
        return dig(self.get(CLUSTER), "status") or {}

    def history(self, count: int) -> list[Json]:
        """Return the history once it has so many entries."""

        def long_enough() -> list[Json] | NotYet:
            found = self.status().get("history") or []
            return found if len(found) >= count else NotYet(f"the status is {self.status()}")

        return self.wait(long_enough, f"{count} entries of the history")

    def condition(self, kind: str, status: str, reason: str | None = None) -> Json:
        """Return a condition of the ClusterDeployment, for its present generation, once it says so."""

        def said() -> Json | NotYet:
            found = self.get(CLUSTER_DEPLOYMENT)
            one = condition(found, kind) or {}
            new = dig(found, "status", "observedGeneration") == dig(found, "metadata", "generation")
            same = one.get("status") == status and reason in (None, one.get("reason"))
            return one if new and same else NotYet(f"the status is {dig(found, 'status')}")

        return self.wait(said, f"{kind}={status} ({reason or 'any reason'})")

    def gone(self, kind: Resource, name: str = NAME) -> None:
        """Wait for an object to be gone."""
        self.wait(lambda: NotYet(f"there is {self.get(kind, name)}") if self.get(kind, name) else True, f"no {name}")

    def keep_kubeconfig(self) -> None:
        """Keep what playbooks keep at the end of a deployment, as their executor does."""
        data = {"kubeconfig": base64.b64encode(KUBECONFIG).decode()}
        self.api.merge(SECRET, state_name(NAME), {"data": data}, self.namespace)

    def succeed(self, job: str) -> Json:
        """Let an executor succeed; return its Job."""
        self.kubelet.job(job)
        self.keep_kubeconfig()
        return self.kubelet.end(job, message=SUCCEEDED)

    def deployed(self) -> Json:
        """Declare a cluster, have it deployed and its machines ready; return the ClusterDeployment."""
        made = self.declare()
        self.succeed(f"{NAME}-1-deploy")
        self.history(1)
        for name in self.given:
            self.say(name, "Ready")
        self.condition("Ready", "True")
        return made

    def delete(self) -> None:
        """Ask for the deletion of the ClusterDeployment."""
        self.api.delete(CLUSTER_DEPLOYMENT, NAME, self.namespace)

    def refused(self, body: Json) -> str:
        """Return why the API server refuses an object."""
        try:
            self.api.create(CLUSTER_DEPLOYMENT, body)
        except ApiFailure as failure:
            return failure.message
        raise AssertionError("it was taken")
