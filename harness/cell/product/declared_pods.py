"""Pods that a product has beside its machines: whose fault it is that they do not run, and what their Jobs said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.cell.finalizers import is_own
from harness.cell.product.protocol import OuterCluster
from harness.errors import HarnessBug, InfraError, ProductError, VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, dig
from harness.kube.resources import JOB, POD

NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
CRASHES = 3  # of one container: whatever it waited for at first is there by then
LINES = 200  # of a controller's log, in a failed phase's


@dataclass
class PodWatch:
    """Looks at the pods of a namespace again and again, and knows for how long something has been wrong."""

    outer: OuterCluster
    namespace: str
    _since: dict[str, float] = field(default_factory=dict)

    def refuse_broken(self) -> None:
        """Raise for what does not come right by waiting.

        Raises:
            ProductError: a container crashes.  HarnessBug: an image cannot be pulled.  InfraError: no node has room.
        """
        patience = self.outer.timeouts.unschedulable
        for trouble in self._troubles():
            began = self._since.setdefault(str(trouble), time.monotonic())
            if isinstance(trouble, ProductError) or time.monotonic() - began > patience:
                raise trouble

    def verdict(self, said: str, detail: str) -> VmatrixError:
        """Return the error of a wait that was in vain: the pods' trouble, if they have any, else the product's."""
        trouble = next(self._troubles(), None)
        hint = "the phase's log has the controllers' own words"
        return trouble or ProductError(said, hint=hint, detail=f"{detail}\n{self.described()}".strip())

    def said(self) -> str:
        """Return what is wrong now, "" when nothing is."""
        return next((trouble.summary for trouble in self._troubles()), "")

    def described(self) -> str:
        """Return each pod with its state."""
        pods = own_pods(self.outer.cluster, self.namespace)
        return "\n".join(f"pod {p['metadata']['name']}: {dig(p, 'status', 'phase') or 'Pending'}" for p in pods)

    def _troubles(self) -> Iterator[VmatrixError]:
        for pod in own_pods(self.outer.cluster, self.namespace):
            yield from _trouble(pod)


def own_pods(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the pods of a namespace that are the product's."""
    return [pod for pod in cluster.list(POD, namespace).items if is_own(pod)]


def _trouble(pod: Json) -> Iterator[VmatrixError]:
    name = f"pod {pod['metadata']['name']}"
    placed = condition(pod, "PodScheduled")
    if placed is not None and placed.get("status") == "False":
        hint = "the infra cluster needs a node for pods beside the machines' (docs/infra.md)"
        yield InfraError(f"no node takes {name}: {placed.get('message', '')}", hint=hint)
    for state in dig(pod, "status", "containerStatuses") or []:
        waiting = dig(state, "state", "waiting") or {}
        if waiting.get("reason") in NOT_PULLED:
            said = f"the image {state.get('image')} of {name} cannot be pulled: {waiting.get('message', '')}"
            yield HarnessBug(said, hint="the run pushes it into the registry, which the node must be able to read")
        if waiting.get("reason") == "CrashLoopBackOff" and state.get("restartCount", 0) >= CRASHES:
            last = dig(state, "lastState", "terminated") or {}
            said = f"container {state['name']} of {name} crashes (exit code {last.get('exitCode')})"
            hint = "the phase's log ends with its last lines"
            yield ProductError(said, hint=hint, detail=str(last.get("message", "")))


def jobs(cluster: Cluster, namespace: str, selector: str) -> dict[str, str]:
    """Return the Jobs of a selector: names by uid, oldest first."""
    found = cluster.list(JOB, namespace, labels=selector).items
    found.sort(key=lambda job: str(job["metadata"].get("creationTimestamp", "")))
    return {str(job["metadata"]["uid"]): str(job["metadata"]["name"]) for job in found}


def keep_logs(cluster: Cluster, namespace: str, names: Iterator[str], log: Path) -> None:
    """Append what the pods of Jobs said to a phase's log."""
    for name in names:
        for pod in cluster.list(POD, namespace, labels=f"batch.kubernetes.io/job-name={name}").items:
            _append(cluster, pod, f"job {name}", log, None)


def keep_controllers(cluster: Cluster, namespace: str, log: Path) -> None:
    """Append the last lines of pods that belong to no Job to a phase's log."""
    for pod in own_pods(cluster, namespace):
        if "batch.kubernetes.io/job-name" not in (pod["metadata"].get("labels") or {}):
            _append(cluster, pod, "controller", log, LINES)


def _append(cluster: Cluster, pod: Json, what: str, log: Path, tail: int | None) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    for container in pod["spec"]["containers"]:
        try:
            said = cluster.pod_log(namespace, name, container=container["name"], tail=tail)
        except VmatrixError as error:  # a pod that never ran has no log; that must not hide why
            said = f"(no log: {error.summary})"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"==== {what}, pod {name}, container {container['name']}\n{said.rstrip()}\n")
