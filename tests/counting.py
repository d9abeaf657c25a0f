"""A client of an API that counts what it asks."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from harness.kube import Cluster
from harness.kube.api import PATIENT
from harness.kube.client import Answer


class Counting(Cluster):
    """A client that counts its requests by method."""

    def __init__(self, like: Cluster) -> None:
        super().__init__(like.connection, PATIENT)
        self.counts: Counter[str] = Counter()
        self._counting = threading.Lock()

    def send(self, method: str, path: str, **options: Any) -> Answer:
        """Send one request, counted."""
        with self._counting:
            self.counts[method] += 1
        return super().send(method, path, **options)
