"""What a manager asks and looks at grows as its objects do: counted, so that no host is too slow for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer
from harness.operator.registry import stop
from harness.until import Deadline, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.many import CLUSTERS, ETCDS, Population
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.test_idle import quiet
from tests.embedded.operator.world import OPTIONS

FEW, MACHINES = 5, 3
LISTS = 14  # one for each kind, at a start
OF_CLUSTER = 6  # four are the Secrets of its CAs
GROWTH = 2.6  # of what is counted when the objects double; what looks at all for each grows fourfold


@dataclass
class Handed:
    """How many objects local copies handed out."""

    objects: int = 0


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Handed:
    """Count what is read of local copies."""
    count, plain, chosen = Handed(), Informer.list, Informer.by

    def listed(self: Informer, namespace: str | None = None) -> list[Json]:
        found = plain(self, namespace)
        count.objects += len(found)
        return found

    def by(self: Informer, *about: object) -> list[Json]:
        found = chosen(self, *about)  # type: ignore[arg-type]
        count.objects += len(found)
        return found

    monkeypatch.setattr(Informer, "list", listed)
    monkeypatch.setattr(Informer, "by", by)
    return count


@pytest.mark.parametrize("population", [CLUSTERS, ETCDS], ids=["ClusterDeployments", "EtcdClusters"])
def test_twice_as_many_clusters_cost_a_manager_that_starts_twice_as_much(
    api: Cluster,
    namespace: str,
    manager: StartManager,
    logins: PlayedLogins,
    handed: Handed,
    client: RecordedCluster,
    population: Population,
) -> None:
    costs: list[tuple[int, int]] = []
    for clusters in (range(FEW), range(FEW, 2 * FEW)):
        first = manager(options=OPTIONS)
        population.declare(api, namespace, clusters, MACHINES)
        begun = population.all_begun(api, namespace, clusters.stop)
        until(begun, deadline=Deadline.after(WAIT_SECONDS), what="all Jobs", interval=INTERVAL)
        until(partial(quiet, first), deadline=Deadline.after(WAIT_SECONDS), what="a manager to rest")
        assert stop(first)
        client.asked.clear()
        handed.objects = 0
        second = manager(options=OPTIONS, client=client)
        until(partial(quiet, second), deadline=Deadline.after(WAIT_SECONDS), what="a manager to rest")
        assert stop(second)
        costs.append((len(client.asked), handed.objects))
    (requests, looked), (more_requests, more_looked) = costs
    assert more_requests <= GROWTH * requests, costs
    assert more_looked <= GROWTH * looked, costs
    assert more_requests <= LISTS + OF_CLUSTER * 2 * FEW, "a few for each cluster, none for each machine"
