"""Jobs, pods and their logs as an API shows them, and what is done to them: a script of events, played by a test."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.kube.client import Json, Listing, Unreachable
from harness.kube.resources import Resource

MOMENT = "2026-01-01T00:00:%02dZ"


@dataclass
class Played:
    """A cluster in which Jobs and pods come and change as it is told; `script` does so when a log has been read."""

    log: dict[str, list[str]] = field(default_factory=dict)
    breaks: dict[str, int] = field(default_factory=dict)
    posted: list[str] = field(default_factory=list)
    _objects: dict[str, dict[str, Json]] = field(default_factory=lambda: {"Job": {}, "Pod": {}})
    _events: dict[str, queue.Queue[tuple[str, Json]]] = field(
        default_factory=lambda: {"Job": queue.Queue(), "Pod": queue.Queue()}
    )
    _version: int = 0

    def put(self, kind: str, obj: Json) -> None:
        """Have an object, or a new state of it."""
        self._version += 1
        obj["metadata"].setdefault("resourceVersion", str(self._version))
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._objects[kind][obj["metadata"]["uid"]] = obj
        self._events[kind].put(("MODIFIED", obj))

    def names(self) -> set[str]:
        """Return the names of all Jobs."""
        return {job["metadata"]["name"] for job in self._objects["Job"].values()}

    def list(self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Return what is there."""
        return Listing(list(self._objects[resource.kind].values()), "0")

    def watch(self, resource: Resource, namespace: str | None = None, **_: Any) -> Iterator[tuple[str, Json]]:
        """Yield what comes."""
        while True:
            yield self._events[resource.kind].get()

    def follow_pod_log(self, namespace: str, name: str, *, container: str) -> Iterator[str]:
        """Yield a pod's lines; a connection may break after some of them."""
        if name in self.breaks:
            yield from self.log[name][: self.breaks.pop(name)]
            raise Unreachable("nothing came for long")
        yield from self.log[name]

    def merge(self, resource: Resource, name: str, patch: Json, namespace: str) -> Json:
        """Merge annotations into an object."""
        found = next(one for one in self._objects[resource.kind].values() if one["metadata"]["name"] == name)
        found["metadata"].setdefault("annotations", {}).update(patch["metadata"]["annotations"])
        return found

    def request(self, method: str, path: str, **_: Any) -> Json:
        """Take a request in."""
        self.posted.append(path)
        return {}


def job(name: str, began: int, ended: int | None = None, *, how: str = "Failed", uid: str = "") -> Json:
    """Return a Job that was made at one second and ended at another."""
    end = {"type": how, "status": "True", "lastTransitionTime": MOMENT % (ended or 0)}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or name, "creationTimestamp": MOMENT % began},
        "status": {"conditions": [end] if ended is not None else []},
    }


def pod(of: str, name: str, began: int, ended: int | None = None) -> Json:
    """Return the pod of a Job (a manager's for ""), whose program began at one second and ended at another."""
    span = {"startedAt": MOMENT % began} | ({"finishedAt": MOMENT % ended, "exitCode": 137} if ended else {})
    state = {"containerID": f"containerd://{name}-id", "state": {"terminated" if ended else "running": span}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "creationTimestamp": MOMENT % began,
            "labels": {"batch.kubernetes.io/job-name": of} if of else {},
        },
        "spec": {"containers": [{"name": "executor"}]},
        "status": {"phase": "Failed" if ended else "Running", "containerStatuses": [state]},
    }
