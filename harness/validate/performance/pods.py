"""The namespace of the measurements and the pods in it: created, watched, run to their end, removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from harness.kube import Cluster
from harness.kube.failures import ApiFailure, Unreachable
from harness.kube.resources import NAMESPACE, POD
from harness.until import Deadline, NotYet, until
from harness.validate.facts.cluster import Json
from harness.validate.remote.objects import (
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


def started(found: Json) -> bool:
    """Tell whether all containers of a pod have started."""
    statuses = found.get("status", {}).get("containerStatuses") or []
    return bool(statuses) and all(status.get("started") for status in statuses)


def ready(found: Json) -> bool:
    """Tell whether a pod is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found.get("status", {}).get("conditions") or ())


def ended(found: Json) -> bool:
    """Tell whether a pod has run to its end, good or bad."""
    return found.get("status", {}).get("phase") in ENDED


def wait_for(api: Cluster, names: Collection[str], matches: Matches, deadline: Deadline, what: str) -> dict[str, Json]:
    """Wait for pods; return them by name. Raises TimedOut with their last events."""

    def look() -> dict[str, Json] | NotYet:
        found = {each["metadata"]["name"]: each for each in api.list(POD, NAME).items}
        left = [name for name in names if name not in found or not matches(found[name])]
        return NotYet(f"left: {', '.join(left)}") if left else {name: found[name] for name in names}

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
    found = wait_for(api, [name], ended, deadline, f"pod {name} to end")
    text = api.pod_log(NAME, name, container=TOOLS)
    phase = found[name]["status"]["phase"]
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
        for kind, found in self.api.watch(POD, NAME, resource_version=self._version):
            now = time.monotonic()
            if self._done.is_set():
                return
            if kind == "ERROR":
                self._version = self.api.list(POD, NAME).resource_version
                return
            meta = found.get("metadata", {})
            self._version = meta.get("resourceVersion", self._version)
            if kind in ("ADDED", "MODIFIED") and self.matches(found):
                self.at.setdefault(meta["name"], now)

    def wait(self, names: Collection[str], deadline: Deadline, what: str) -> None:
        """Wait until all of these were seen. Raises TimedOut with their last events."""

        def look() -> bool | NotYet:
            left = [name for name in names if name not in self.at]
            return NotYet(f"{len(left)} left: {', '.join(left[:5])}") if left else True

        until(look, deadline=deadline, what=what, describe=lambda: describe_pods(self.api, NAME), interval=0.05)
