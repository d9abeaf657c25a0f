"""Pods of the measurements: how long pods take to start, and how many the scheduler places in a second.

Start: as upstream's pod startup latency: stateless pods whose images are there already, as a watch sees them. The load:
sixty pods on one node, ten at a time, created as fast as the API takes them; the next ten when these are gone.

Scheduling: a hundred pods wait for a label that no node has. When a node gets it, all can be placed at once. They never
start: each wants a volume of a ConfigMap that does not exist, for which its node waits before it makes anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from harness.kube import Cluster
from harness.kube.failures import ApiFailure, Unreachable
from harness.kube.resources import NAMESPACE, NODE, POD
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.conformance.registry import missing_images
from harness.validate.facts.cluster import Json
from harness.validate.performance.comparison import quantile
from harness.validate.pods import (
    INTERVAL,
    container,
    describe_pods,
    ensure_namespace,
    wait_for_service_account,
    wait_until_gone,
)

NAME = "vmatrix-performance"
ENDED = ("Succeeded", "Failed")
TOOLS = "tools"  # the container of a pod that is run to its end
Matches = Callable[[Json], bool]


@contextmanager
def namespace(api: Cluster, seconds: float) -> Iterator[None]:
    """Have the namespace, empty, while the body runs.

    Args:
        seconds: for making it, and for the end of its pods.

    Raises:
        TimedOut: one of an earlier time does not go.
    """
    deadline = Deadline.after(seconds)
    api.delete(NAMESPACE, NAME)
    wait_until_gone(api, NAMESPACE, NAME, None, deadline)
    ensure_namespace(api, NAME)
    wait_for_service_account(api, NAME, deadline)
    try:
        yield
    finally:
        remove_pods(api, Deadline.after(seconds))
        api.delete(NAMESPACE, NAME)


def pod(name: str, containers: list[Json], *, node: str = "", **spec: Any) -> Json:
    """Return a pod that goes quickly; on a node, if one is given, without asking the scheduler."""
    own = {"nodeName": node, "tolerations": [{"operator": "Exists"}]} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAME, "labels": {"app": name.rpartition("-")[0] or name}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "containers": containers,
            **own,
            **spec,
        },
    }


def started(obj: Json) -> bool:
    """Tell whether all containers of a pod have started."""
    statuses = obj.get("status", {}).get("containerStatuses") or []
    return bool(statuses) and all(status.get("started") for status in statuses)


def ready(obj: Json) -> bool:
    """Tell whether a pod is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in obj.get("status", {}).get("conditions") or ())


def ended(obj: Json) -> bool:
    """Tell whether a pod has run to its end, good or bad."""
    return obj.get("status", {}).get("phase") in ENDED


def wait_for(api: Cluster, names: Collection[str], matches: Matches, deadline: Deadline, what: str) -> dict[str, Json]:
    """Wait for pods; return them by name. Raises TimedOut with their last events."""

    def look() -> dict[str, Json] | NotYet:
        pods = {each["metadata"]["name"]: each for each in api.list(POD, NAME).items}
        left = [name for name in names if name not in pods or not matches(pods[name])]
        return NotYet(f"left: {', '.join(left)}") if left else {name: pods[name] for name in names}

    return until(look, deadline=deadline, what=what, describe=lambda: describe_pods(api, NAME), interval=INTERVAL)


def remove_pods(api: Cluster, deadline: Deadline) -> None:
    """Delete all pods of the namespace, and wait for them to be gone."""
    api.request("DELETE", POD.path(NAME), query={"gracePeriodSeconds": "0"})

    def gone() -> bool | NotYet:
        left = [each["metadata"]["name"] for each in api.list(POD, NAME).items]
        return NotYet(f"left: {', '.join(sorted(left))}") if left else True

    until(gone, deadline=deadline, what="the pods of a measurement to be gone", interval=INTERVAL)


def output(api: Cluster, name: str, image: str, node: str, script: str, deadline: Deadline) -> str:
    """Run a shell script in a pod on a node to its end; return what it printed.

    Raises:
        TimedOut: it does not end in time.  AssertionError: it fails.
    """
    shell = container(TOOLS, image, command=["sh", "-ec", script])
    api.create(POD, pod(name, [shell], node=node))
    pods = wait_for(api, [name], ended, deadline, f"pod {name} to end")
    text = api.pod_log(NAME, name, container=TOOLS)
    phase = pods[name]["status"]["phase"]
    assert phase == "Succeeded", f"pod {name} on {node} failed: {text[-800:]}"  # noqa: S101 - a finding of the check
    api.delete(POD, name, NAME, grace=0)
    return text


class PodsSeen:
    """When pods of the namespace were first seen to match, as a watch told; monotonic seconds by name."""

    def __init__(self, api: Cluster, matches: Matches) -> None:
        self.api, self.matches = api, matches
        self.at: dict[str, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._version = api.list(POD, NAME).resource_version

    def __enter__(self) -> PodsSeen:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop at the next event; those of the pods' removal come soon."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.is_set():
            try:
                self._follow()
            except (ApiFailure, Unreachable):
                self._done.wait(INTERVAL)

    def _follow(self) -> None:
        """Note pods until the watch ends."""
        for kind, obj in self.api.watch(POD, NAME, resource_version=self._version):
            now = time.monotonic()
            if self._done.is_set():
                return
            if kind == "ERROR":
                self._version = self.api.list(POD, NAME).resource_version
                return
            meta = obj.get("metadata", {})
            self._version = meta.get("resourceVersion", self._version)
            if kind in ("ADDED", "MODIFIED") and self.matches(obj):
                self.at.setdefault(meta["name"], now)

    def wait(self, names: Collection[str], deadline: Deadline, what: str) -> None:
        """Wait until all of these were seen. Raises TimedOut with their last events."""

        def look() -> bool | NotYet:
            left = [name for name in names if name not in self.at]
            return NotYet(f"{len(left)} left: {', '.join(left[:5])}") if left else True

        until(look, deadline=deadline, what=what, describe=lambda: describe_pods(self.api, NAME), interval=0.05)


STARTED_PODS, AT_ONCE = 60, 10
HOSTNAME = "kubernetes.io/hostname"


def pod_starts(api: Cluster, node: str, image: str, deadline: Deadline) -> list[float]:
    """Return the seconds that each pod took, in order of their size.

    Args:
        image: that does nothing when it is called with `pause`.

    Raises:
        TimedOut: a pod does not start in time.
    """
    api.create(POD, _starting_pod("warm-0", node, image))  # so that the image is there
    wait_for(api, ["warm-0"], started, deadline, f"a first pod on {node} to start")
    remove_pods(api, deadline)
    took: list[float] = []
    with PodsSeen(api, started) as watched:
        for first in range(0, STARTED_PODS, AT_ONCE):
            created: dict[str, float] = {}
            for number in range(first, first + AT_ONCE):
                name = f"start-{number}"
                created[name] = time.monotonic()
                api.create(POD, _starting_pod(name, node, image))
            watched.wait(list(created), deadline, f"{AT_ONCE} pods on {node} to start")
            took += [watched.at[name] - at for name, at in created.items()]
            remove_pods(api, deadline)
    return sorted(took)


def p50_p99(took: list[float]) -> tuple[float, float]:
    """Return the two quantiles of ordered seconds."""
    return quantile(took, 0.5), quantile(took, 0.99)


def _starting_pod(name: str, node: str, image: str) -> dict[str, object]:
    """Return a pod that the scheduler puts on a node: its work is part of a start."""
    everywhere = [{"operator": "Exists"}]
    pause = [container("pause", image, args=["pause"])]
    return pod(name, pause, nodeSelector={HOSTNAME: node}, tolerations=everywhere)


SCHEDULED_PODS = 100
LABEL = "vmatrix.dev/performance"
SPARE = 5  # pods that a node keeps room for
BACKOFF = 1.5  # seconds; the scheduler tries a pod again at the earliest after 1 (podInitialBackoffSeconds)


def scheduled_per_second(api: Cluster, node: str, image: str, deadline: Deadline) -> tuple[float, int]:
    """Return how many pods are placed in a second, and of how many that was told.

    Raises:
        TimedOut: a pod is not placed in time.
    """
    names = [f"place-{number}" for number in range(_room(api, node))]
    try:
        with PodsSeen(api, lambda obj: bool(obj["spec"].get("nodeName"))) as watched:
            for name in names:
                api.create(POD, _pending_pod(name, image))
            wait_for(api, names, _refused, deadline, f"{len(names)} pods to wait for a node")
            time.sleep(BACKOFF)
            began = time.monotonic()
            api.merge(NODE, node, {"metadata": {"labels": {LABEL: "here"}}})
            watched.wait(names, deadline, f"{len(names)} pods to be placed on {node}")
            took = max(watched.at[name] for name in names) - began
    finally:
        api.merge(NODE, node, {"metadata": {"labels": {LABEL: None}}})
        remove_pods(api, deadline)
    return len(names) / took, len(names)


def _room(api: Cluster, node: str) -> int:
    """Return for how many more pods a node has room, of at most PODS."""
    most = int((api.get(NODE, node) or {}).get("status", {}).get("allocatable", {}).get("pods", 0))
    there = len(api.list(POD, fields=f"spec.nodeName={node}").items)
    room = min(SCHEDULED_PODS, most - there - SPARE)
    assert room > 0, f"node {node} has no room for pods: {there} of {most}"  # noqa: S101 - a finding of the check
    return room


def _refused(obj: Json) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


def _pending_pod(name: str, image: str) -> Json:
    mount = {"name": "never", "mountPath": "/never"}
    own: dict[str, Any] = {
        "nodeSelector": {LABEL: "here"},
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "never", "configMap": {"name": "there-is-none"}}],
    }
    return pod(name, [container("never", image, volumeMounts=[mount])], **own)


TOOLS_IMAGE = "performance-tools:1"


def tools_image(mirror: Mirror, timeouts: Timeouts) -> str | None:
    """Return the image as nodes pull it; None where the mirror does not have it.

    Raises:
        InfraRetriable: the mirror does not answer.
    """
    if missing_images(mirror.registry, [TOOLS_IMAGE], timeouts.registry_request):
        return None
    return f"{mirror.images}/{TOOLS_IMAGE}"
