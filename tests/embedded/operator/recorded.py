"""A client that remembers what it asked of an API, and can be told to fail before or after a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from harness.kube.api import HASTY, RequestOptions
from harness.kube.client import Cluster
from harness.kube.connection import ApiConnection, open_kubeconfig
from harness.kube.failures import Answer

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Asked:
    """One request: its method, its path, what it sent, and the labels that it asked for."""

    method: str
    path: str
    body: Any = None
    labels: str = ""

    @property
    def writes(self) -> bool:
        """Tell whether it was to change something."""
        return self.method in WRITES


Hook = Callable[[Asked], None]


def nothing(_: Asked) -> None:
    """Let a request pass."""


class RecordedCluster(Cluster):
    """A client of a real API.

    Attributes: asked (requests so far, watches aside), before and after (called around each request; what they raise
    the caller gets), broken (how many watches were broken), held (how many events were held back).
    """

    def __init__(self, connection: ApiConnection, before: Hook = nothing, after: Hook = nothing) -> None:
        super().__init__(connection, HASTY)
        self.asked: list[Asked] = []
        self.before = before
        self.after = after
        self.broken = self.held = 0
        self._hold: tuple[str, threading.Event] | None = None
        self._breaks: Callable[[], Exception] | None = None
        self._lock = threading.Lock()

    @staticmethod
    def open(kubeconfig: Path, before: Hook = nothing, after: Hook = nothing) -> RecordedCluster:
        """Open a kubeconfig file."""
        return RecordedCluster(open_kubeconfig(kubeconfig, None), before, after)

    def writes(self) -> list[Asked]:
        """Return the requests so far that were to change something, events aside."""
        with self._lock:
            return [asked for asked in self.asked if asked.writes and "/events" not in asked.path]

    def send(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Answer:
        """Send one request between the two hooks."""
        asked = Asked(method, path, options.get("body"), str((options.get("query") or {}).get("labelSelector", "")))
        self.before(asked)
        with self._lock:
            self.asked.append(asked)
        answer = super().send(method, path, **options)
        self.after(asked)
        return answer

    def stream(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Watch; a watch that is to break does so after its first event."""
        self.before(Asked("WATCH", path))
        for line in super().stream(path, query):
            if self._hold is not None and path.endswith(f"/{self._hold[0]}") and not self._hold[1].is_set():
                self.held += 1
                self._hold[1].wait()
            yield line
            if self._breaks is not None:
                self.broken += 1
                raise self._breaks()

    def hold_watches(self, plural: str) -> threading.Event:
        """Hold back what watches tell of a kind until the event is set that is returned."""
        self._hold = (plural, threading.Event())
        return self._hold[1]

    def break_watches(self, failure: Callable[[], Exception]) -> None:
        """Break every watch after its first event."""
        self._breaks = failure
