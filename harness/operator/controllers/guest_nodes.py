"""The Nodes of a guest cluster, watched over one connection; a guest that does not answer is known not to."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from harness.errors import VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.resources import NODE
from harness.until import grown

log = logging.getLogger(__name__)
FIRST_RETRY_SECONDS = 0.5  # pacing, doubled with each failure
LAST_RETRY_SECONDS = 60.0  # each try may cost the infra cluster's API a connection
SILENT_SECONDS = 10.0  # a connection that breaks and comes back within this is no news of the guest
Connect = Callable[[], AbstractContextManager[Cluster]]


@dataclass(frozen=True)
class GuestView:
    """What is known of a guest: its Nodes by name and a client; or why it does not answer."""

    nodes: Mapping[str, Json] = field(default_factory=dict)
    guest: Cluster | None = None
    trouble: str = "it was not asked yet"


class GuestNodes:
    """Lists and watches on a thread of its own, and tells when something changed.

    A break is followed by a list, not by more of the same watch: nodes are few, and an answer is a sign of life.

    Attributes: view (what is known now).
    """

    def __init__(self, name: str, connect: Connect, changed: Callable[[], None]) -> None:
        self.view = GuestView()
        self._name = name
        self._connect = connect
        self._changed = changed
        self._failing_since: float | None = None
        self._failures = 0
        self._stopping = threading.Event()
        threading.Thread(target=self._run, name=f"guest-{name}", daemon=True).start()

    def stop(self) -> None:
        """Tell nothing more; the connection ends at its next event or time-out."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connect() as guest:
                    while not self._stopping.is_set():
                        self._follow(guest)
            except (VmatrixError, OSError) as error:
                self._failed(str(error))

    def _follow(self, guest: Cluster) -> None:
        """List, and watch until the watch ends."""
        listing = guest.list(NODE)
        self._failing_since, self._failures = None, 0
        nodes = {node["metadata"]["name"]: node for node in listing.items}
        self._see(GuestView(nodes, guest, ""))
        for kind, node in guest.watch(NODE, resource_version=listing.resource_version):
            if kind == "ERROR" or self._stopping.is_set():
                return
            if kind != "BOOKMARK":
                name = node["metadata"]["name"]
                others = {known: found for known, found in nodes.items() if known != name}
                nodes = others if kind == "DELETED" else {**others, name: node}
                self._see(GuestView(nodes, guest, ""))

    def _failed(self, why: str) -> None:
        """Wait before the next try; say that the guest does not answer once that has lasted."""
        now = time.monotonic()
        self._failures += 1
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= SILENT_SECONDS:
            log.debug("guest %s does not answer: %s", self._name, why)
            self._see(GuestView(trouble=why))
        self._stopping.wait(grown(FIRST_RETRY_SECONDS, self._failures, LAST_RETRY_SECONDS))

    def _see(self, view: GuestView) -> None:
        if view != self.view and not self._stopping.is_set():
            self.view = view
            self._changed()
