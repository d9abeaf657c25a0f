"""Watch streams: read from a recording, or taken from a live API by one thread per kind."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.kube.client import ApiFailure, Cluster, Unreachable
from harness.kube.resources import DATA_VOLUME, EVENT, POD, PVC, VM, VMI, Resource
from tests.contract.transitions import Json, WatchEvent

RECORDED = Path(__file__).parent / "recorded"
WATCHED: Mapping[str, Resource] = {"vm": VM, "vmi": VMI, "pod": POD, "dv": DATA_VOLUME, "pvc": PVC}


@dataclass
class Streams:
    """What was watched in one namespace: per kind the watch events in order of arrival, and the events."""

    watch: dict[str, list[WatchEvent]] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)

    def of(self, kind: str, name: str) -> list[WatchEvent]:
        """Return one object's stream; a name that ends in "*" stands for the first object that begins so."""
        found = self.watch.get(kind, [])
        if name.endswith("*"):
            name = next((o["metadata"]["name"] for _, o in found if o["metadata"]["name"].startswith(name[:-1])), "")
        return [(t, o) for t, o in found if o["metadata"]["name"] == name]

    def about(self, kind: str, name: str = "") -> list[Json]:
        """Return the events about a kind of object, of one name or of any."""
        return [
            e for e in self.events if e["involvedObject"].split("/")[0] == kind and e["involvedObject"].endswith(name)
        ]


def recording(name: str) -> Streams:
    """Read one of the recordings (the same format as `save` writes)."""
    return load(RECORDED / name)


class Watcher:
    """Watches a namespace from `start` (before anything is created) to `stop`."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._streams = Streams({kind: [] for kind in WATCHED})
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.broken: list[str] = []

    def start(self) -> Watcher:
        """List every kind once, and follow it from there on a daemon thread of its own."""
        for kind, resource in {**WATCHED, "event": EVENT}.items():
            version = self._cluster.list(resource, self._namespace).resource_version
            threading.Thread(target=self._follow, args=(kind, resource, version), daemon=True).start()
        return self

    def stop(self) -> None:
        """Take nothing more in."""
        self._stopped.set()

    def taken(self) -> Streams:
        """Return a copy of what was seen so far."""
        with self._lock:
            return Streams({k: list(v) for k, v in self._streams.watch.items()}, list(self._streams.events))

    def _follow(self, kind: str, resource: Resource, version: str) -> None:
        try:
            for event, obj in self._cluster.watch(resource, self._namespace, resource_version=version):
                if self._stopped.is_set():
                    return
                if event in {"ADDED", "MODIFIED", "DELETED"}:
                    self._take(kind, event, obj)
        except (ApiFailure, Unreachable) as failure:
            if not self._stopped.is_set():
                self.broken.append(f"{kind}: {failure}")

    def _take(self, kind: str, event: str, obj: Json) -> None:
        with self._lock:
            if kind != "event":
                self._streams.watch[kind].append((event, obj))
            elif event != "DELETED":
                about = obj["involvedObject"]
                self._streams.events.append(
                    {
                        "involvedObject": f"{about['kind']}/{about['name']}",
                        "type": obj["type"],
                        "reason": obj["reason"],
                        "message": obj["message"],
                    }
                )


def save(streams: Streams, path: Path) -> None:
    """Write streams in the recordings' format."""
    watch: dict[str, Any] = {k: [{"type": t, "object": o} for t, o in v] for k, v in streams.watch.items()}
    path.write_text(json.dumps({"watch": {**watch, "events": streams.events}}), encoding="utf-8")


def load(path: Path) -> Streams:
    """Read streams that `save` wrote."""
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["watch"]
    watch = {kind: [(e["type"], e["object"]) for e in raw[kind]] for kind in raw if kind != "events"}
    return Streams(watch, raw["events"])
