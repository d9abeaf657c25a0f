"""The informers of one process, one per kind, shared by all rooms."""

from __future__ import annotations

from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer
from harness.kube.resources import Resource
from harness.until import Deadline, NotYet, until

SYNC_SECONDS = 30.0  # first lists of an API server on this host; times the factor


class Informers:
    """One informer per kind, shared by all parts."""

    def __init__(self, cluster: Cluster, namespace: str | None = None) -> None:
        """Mirror one cluster: of namespaced kinds what is in one namespace, or all."""
        self._cluster = cluster
        self._namespace = namespace
        self._of: dict[tuple[Resource, str], Informer] = {}
        self._started = False

    def of(self, resource: Resource, *, labels: str = "") -> Informer:
        """Return the informer of a kind, or of a selector's part of it; all must be asked for before `start`."""
        wanted = (resource, labels)
        if wanted not in self._of:
            if self._started:
                raise RuntimeError(f"informer of {resource.plural} asked for after the start")
            namespace = self._namespace if resource.namespaced else None
            self._of[wanted] = Informer(self._cluster, resource, namespace=namespace, labels=labels)
        return self._of[wanted]

    def known(self, resource: Resource) -> list[Json]:
        """Return what the local copy has of a kind; nothing of one that nobody asked for."""
        found = self._of.get((resource, ""))
        return found.list() if found is not None else []

    def start(self) -> None:
        """Start watching all kinds that were asked for."""
        self._started = True
        for informer in self._of.values():
            informer.start()

    def wait(self, stretch: float = 1.0) -> None:
        """Return when every kind had its first list.

        Raises:
            TimedOut: one did not come within SYNC_SECONDS, times the factor.
        """
        until(
            self._missing, deadline=Deadline.after(SYNC_SECONDS * stretch), what="all informers to sync", interval=0.02
        )

    def _missing(self) -> bool | NotYet:
        late = [r.plural for (r, _), informer in self._of.items() if not informer.synced.is_set()]
        return NotYet(f"no list yet of {', '.join(late)}") if late else True

    def deaf(self) -> list[str]:
        """Return the kinds of whose changes nothing is seen any more, though they were to be watched."""
        return [resource.plural for (resource, _), informer in self._of.items() if informer.deaf]

    def stop(self) -> None:
        """Stop watching."""
        for informer in self._of.values():
            informer.stop()
