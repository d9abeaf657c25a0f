"""Writes into the cluster all through a phase: those that the API acknowledged must be there whatever happened."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from harness.errors import VmatrixError
from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.validate.phases.data import LIFE
from harness.validate.pods import ensure_namespace

NAME = "acknowledged"
PAUSE_SECONDS = 0.1  # between writes, and before the next try
JOIN_SECONDS = 60.0  # the longest request ends within the client's own time-outs


@dataclass
class Writer:
    """Adds one key after the other to a ConfigMap: a write that is lost is a key that is missing.

    acknowledged: the keys whose writes the API has answered with success.
    """

    api: Cluster
    acknowledged: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write.

        Raises:
            VmatrixError: the ConfigMap cannot be made.
        """
        ensure_namespace(self.api, LIFE)
        metadata = {"name": NAME, "namespace": LIFE}
        self.api.ensure(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            key, number = f"{number:06}", number + 1
            try:
                self.api.merge(CONFIG_MAP, NAME, {"data": {key: ""}}, LIFE)
            except VmatrixError:
                continue  # not acknowledged: it may be there or not
            self.acknowledged.append(key)

    def stop(self) -> None:
        """Write no more. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)


def written(api: Cluster) -> list[str]:
    """Return the keys that are there."""
    return sorted((api.get(CONFIG_MAP, NAME, LIFE) or {}).get("data") or {})
