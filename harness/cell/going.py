"""Which namespaces are still there: one look for all who wait for theirs to go."""

from __future__ import annotations

import threading
import time

from harness.kube.client import Cluster, Json
from harness.kube.resources import NAMESPACE

AGE_SECONDS = 0.3  # of a look that is still good: a hundred who ask at once cost the API three answers a second
EACH_SECONDS = 0.002  # more for each namespace that it showed: a thousand are a megabyte


class Going:
    """The namespaces that a label selector picks, as the API last showed them."""

    def __init__(self, cluster: Cluster, labels: str) -> None:
        self._cluster = cluster
        self._labels = labels
        self._lock = threading.Lock()
        self._seen: dict[str, Json] = {}
        self._good_until = 0.0

    def find(self, name: str) -> Json | None:
        """Return a namespace, None once it is gone."""
        with self._lock:
            if time.monotonic() > self._good_until:
                found = self._cluster.list(NAMESPACE, labels=self._labels).items
                self._seen = {namespace["metadata"]["name"]: namespace for namespace in found}
                self._good_until = time.monotonic() + AGE_SECONDS + EACH_SECONDS * len(found)
            return self._seen.get(name)
