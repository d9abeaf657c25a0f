"""One look at a guest cluster through its API, and the wait until it has settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import DAEMON_SET, DEPLOYMENT, NODE, POD
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.network_plugins import plugins
from harness.validate.judge.mismatch import Mismatch

Json = dict[str, Any]
SYSTEM_NAMESPACES = frozenset({"kube-system", "local-path-storage"})  # and those of network plugins


@dataclass(frozen=True)
class ClusterView:
    """What the API said at one moment: objects as the API gives them, in all namespaces."""

    nodes: tuple[Json, ...]
    pods: tuple[Json, ...]
    daemon_sets: tuple[Json, ...]
    deployments: tuple[Json, ...]

    def find(self, objects: Sequence[Json], namespace: str, name: str) -> Json | None:
        """Return an object of the view by its namespace and name."""
        for obj in objects:
            if (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) == (namespace, name):
                return obj
        return None

    @property
    def system_pods(self) -> tuple[Json, ...]:
        """Return the pods of the cluster's own namespaces."""
        own = {plugin.daemon_set[0] for plugin in plugins().values() if plugin.daemon_set is not None}
        return tuple(pod for pod in self.pods if pod["metadata"]["namespace"] in SYSTEM_NAMESPACES | own)


def observe(api: Cluster) -> ClusterView:
    """Look at the cluster once."""
    return ClusterView(*(tuple(api.list(kind).items) for kind in (NODE, POD, DAEMON_SET, DEPLOYMENT)))


def settle(api: Cluster, unsettled: Callable[[ClusterView], Sequence[Mismatch]], deadline: Deadline) -> ClusterView:
    """Look until nothing is on its way any more, or until the deadline; return the last look either way.

    A cluster that never settles is no error here: the checks judge the last look and say what is wrong with it.
    """
    last: list[ClusterView] = []

    def probe() -> ClusterView | NotYet:
        last[:] = [observe(api)]
        found = unsettled(last[0])
        return NotYet(str(found[0])) if found else last[0]

    try:
        return until(probe, deadline=deadline, what="the guest cluster has settled", interval=0.5)
    except TimedOut:
        return last[0]
