"""Which namespaces are still there: one look for all who wait for theirs to go."""

from __future__ import annotations

import threading
import time

from harness.kube.client import Cluster, Json
from harness.kube.resources import NAMESPACE

AGE_SECONDS = 0.3  # of a look that is still good: a hundred who ask at once cost the API three answers a second


class Going:
    """The namespaces that a label selector picks, as the API last showed them."""

    def __init__(self, cluster: Cluster, labels: str) -> None:
        self._cluster = cluster
        self._labels = labels
        self._lock = threading.Lock()
        self._seen: dict[str, Json] = {}
        self._at: float | None = None

    def find(self, name: str) -> Json | None:
        """Return a namespace, None once it is gone."""
        with self._lock:
            if self._at is None or time.monotonic() - self._at > AGE_SECONDS:
                found = self._cluster.list(NAMESPACE, labels=self._labels).items
                self._seen = {namespace["metadata"]["name"]: namespace for namespace in found}
                self._at = time.monotonic()
            return self._seen.get(name)
