"""Events of the embedded controllers: repeated ones are counted; a refused one never stops a reconcile."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict

from harness.errors import VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.objects import now
from harness.kube.resources import EVENT

log = logging.getLogger(__name__)
REMEMBERED = 1024
NORMAL = "Normal"
WARNING = "Warning"


class Events:
    """Writes events about objects."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._lock = threading.Lock()

    def normal(self, about: Json, reason: str, message: str, *, component: str) -> None:
        """Say that something went as it should."""
        self._emit(about, NORMAL, reason, message, component)

    def warning(self, about: Json, reason: str, message: str, *, component: str) -> None:
        """Say that something went wrong."""
        self._emit(about, WARNING, reason, message, component)

    def _emit(self, about: Json, kind: str, reason: str, message: str, component: str) -> None:
        meta = about["metadata"]
        count = self._counted((meta["uid"], reason, message))
        digest = hashlib.sha256(f"{meta['uid']} {reason} {message}".encode()).hexdigest()[:16]
        name = f"{meta['name'][:200]}.{digest}"
        moment, namespace = now(), meta.get("namespace", "default")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": meta["name"],
                "namespace": namespace,
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": component},
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "reportingComponent": component,
            "reportingInstance": "",
        }
        try:
            if count > 1:
                repeat = {"count": count, "lastTimestamp": moment}
                self._cluster.merge(EVENT, name, repeat, namespace)
                return
            self._cluster.ensure(EVENT, body)
        except VmatrixError as error:  # a namespace that is going away takes no events
            log.debug("event %s about %s was not taken: %s", reason, meta["name"], error)

    def _counted(self, key: tuple[str, str, str]) -> int:
        with self._lock:
            count = self._counts.pop(key, 0) + 1
            self._counts[key] = count
            while len(self._counts) > REMEMBERED:
                self._counts.popitem(last=False)
            return count
