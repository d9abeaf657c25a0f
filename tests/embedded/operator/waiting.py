"""AwaitedObjects of a namespace, as they become what a test waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import Resource
from harness.operator.api.resources import MACHINE
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS

Found = TypeVar("Found")


@dataclass(frozen=True)
class AwaitedObjects:
    """The objects of one namespace.  seconds, interval: how long and how often something is waited for."""

    api: Cluster
    namespace: str
    seconds: float = WAIT_SECONDS
    interval: float = INTERVAL

    def get(self, name: str, kind: Resource = MACHINE) -> Json:
        """Return an object that is there."""
        found = self.api.get(kind, name, self.namespace)
        assert found is not None, f"{kind.kind} {name} is gone"
        return found

    def made(self, name: str, kind: Resource = MACHINE) -> Json:
        """Return an object once somebody has made it."""

        def probe() -> Json | NotYet:
            return self.api.get(kind, name, self.namespace) or NotYet("it is not there")

        return self._until(probe, f"{kind.kind} {name} to be made")

    def wait(self, name: str, wanted: Callable[[Json], bool], what: str, kind: Resource = MACHINE) -> Json:
        """Return an object once it is as wanted."""

        def probe() -> Json | NotYet:
            found = self.get(name, kind)
            return found if wanted(found) else NotYet(f"claim {dig(found, 'spec', 'claim')}, {found.get('status')}")

        return self._until(probe, f"{kind.kind} {name} to be {what}")

    def gone(self, name: str, kind: Resource = MACHINE) -> None:
        """Wait until an object is gone."""

        def probe() -> bool | NotYet:
            found = self.api.get(kind, name, self.namespace)
            if found is None:
                return True
            return NotYet(f"it has {found['metadata'].get('finalizers')}, {found.get('status')}")

        self._until(probe, f"{kind.kind} {name} to be gone")

    def _until(self, probe: Callable[[], Found | NotYet], what: str) -> Found:
        return until(probe, deadline=Deadline.after(self.seconds), what=what, interval=self.interval)
