"""An infra cluster that has one DataVolume and its events, in plain dictionaries; it tells what was created in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.kube.client import ApiFailure, Listing
from harness.kube.resources import DATA_VOLUME, EVENT, POD, PVC, Resource

Json = dict[str, Any]


def volume(phase: str = "", *, name: str = "d", uid: str = "u1", **more: Any) -> Json:
    """Return a DataVolume; `running` is (status, reason, message), `source` its source."""
    running = more.get("running", ("False", "", ""))
    condition = {"type": "Running", "status": running[0], "reason": running[1], "message": running[2]}
    status: Json = {"phase": phase, "progress": more.get("progress", "N/A"), "conditions": [condition]}
    if "restarts" in more:
        status["restartCount"] = more["restarts"]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"source": more.get("source", {"http": {"url": "http://m/x", "checksum": "sha256:0"}})},
        "status": status,
    }


def event(reason: str, message: str, *, name: str = "d", kind: str = "DataVolume", at: str = "") -> Json:
    """Return an event; `at` is when it was last seen."""
    return {"reason": reason, "message": message, "involvedObject": {"kind": kind, "name": name}, "lastTimestamp": at}


def importer(message: str, *, name: str = "importer-d") -> Json:
    """Return an importer's pod that waits to be started again after it ended with a message."""
    ended = {"exitCode": 1, "reason": "Error", "message": message}
    status = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    return {"metadata": {"name": name}, "status": {"containerStatuses": [status]}}


@dataclass
class DiskCluster:
    """Answers like a cluster; `objects` by kind and name, in whatever namespace."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    created: list[tuple[str, str]] = field(default_factory=list)
    refusals: dict[str, ApiFailure] = field(default_factory=dict)
    on_create: Json | None = None

    def put(self, obj: Json) -> None:
        """Have a DataVolume."""
        self.objects[DATA_VOLUME.kind, obj["metadata"]["name"]] = obj

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """Return an object."""
        self._refuse(resource)
        return self.objects.get((resource.kind, name))

    def list(self, resource: Resource, namespace: str | None = None, **_: str) -> Listing:
        """Return claims, pods or events."""
        self._refuse(resource)
        known = {EVENT.kind: self.events, PVC.kind: self.claims, POD.kind: self.pods}
        return Listing(known.get(resource.kind, []), "1")

    def create(self, resource: Resource, body: Json, *, dry_run: bool = False) -> Json:
        """Write down what is made; a dry run says whether it is there."""
        self._refuse(resource)
        name = body["metadata"]["name"]
        if (resource.kind, name) in self.objects:
            raise ApiFailure(409, "AlreadyExists", "already exists", [], request="POST")
        if not dry_run:
            self.created.append((resource.kind, name))
            made = self.on_create if resource == DATA_VOLUME and self.on_create else body
            self.objects[resource.kind, name] = {**made, "metadata": {**made["metadata"], "name": name}}
        return body

    def create_if_absent(self, resource: Resource, body: Json) -> bool:
        """Create unless it is there."""
        if (resource.kind, body["metadata"]["name"]) in self.objects:
            return False
        self.create(resource, body)
        return True

    def events_about(self, namespace: str, name: str) -> Sequence[Json]:
        """Return the events."""
        return self.events

    def events_of(self, namespace: str, name: str) -> Sequence[str]:
        """Return events as lines."""
        return [f"{e.get('type', '')} {e['reason']}: {e['message']}" for e in self.events]

    def _refuse(self, resource: Resource) -> None:
        if resource.plural in self.refusals:
            raise self.refusals[resource.plural]
