"""Many declared objects at once, with pools of their own: what a manager of a whole site has to look at."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import JOB, Resource
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, ETCD_CLUSTER, MACHINE
from harness.until import NotYet
from tests.unit.operator.api.objects import deployment, etcd_cluster, machine, wanted_set

WRITERS = 8  # at a time


@dataclass(frozen=True)
class Population:
    """Objects of one kind. first: the reason of Progressing while the first operation of one runs.

    wish: returns the object with a number, of so many machines of its pool, in a namespace.
    """

    kind: Resource
    first: str
    wish: Callable[[int, int, str], Json]

    def declare(self, api: Cluster, namespace: str, numbers: range, machines: int) -> None:
        """Create objects, each with so many Machines of a pool of its own."""
        with ThreadPoolExecutor(WRITERS) as pool:
            for done in [pool.submit(self._declare, api, namespace, number, machines) for number in numbers]:
                done.result()

    def _declare(self, api: Cluster, namespace: str, number: int, machines: int) -> None:
        for one in range(machines):
            address = f"10.{100 + number // 250}.{number % 250}.{one + 1}"
            body = machine(f"m-{number}-{one}", namespace, address=address)
            body["metadata"]["labels"] = {"pool": f"p-{number}"}
            api.create(MACHINE, body)
        api.create(self.kind, self.wish(number, machines, namespace))

    def all_begun(self, api: Cluster, namespace: str, count: int) -> Callable[[], bool | NotYet]:
        """Return a probe: whether every object has its Job, and has said so."""

        def begun() -> bool | NotYet:
            jobs = len(api.list(JOB, namespace).items)
            told = [one for one in api.list(self.kind, namespace).items if self._says(one)]
            return (jobs == count == len(told)) or NotYet(f"{jobs} Jobs, {len(told)} of {count} say so")

        return begun

    def _says(self, obj: Json) -> bool:
        conditions = dig(obj, "status", "conditions") or []
        return any(one["type"] == "Progressing" and one["reason"] == self.first for one in conditions)


def _pool(number: int) -> Json:
    return {"selector": {"matchLabels": {"pool": f"p-{number}"}}}


def _cluster(number: int, machines: int, namespace: str) -> Json:
    """Return a ClusterDeployment of one control plane and else workers."""
    workers = wanted_set("w", "worker", replicas=machines - 1, pool=_pool(number))
    sets = [wanted_set("cp", "control-plane", pool=_pool(number)), workers]
    return deployment(*sets, name=f"c-{number}", namespace=namespace)


def _etcd(number: int, machines: int, namespace: str) -> Json:
    return etcd_cluster(f"c-{number}", namespace, replicas=machines, machines={"pool": _pool(number)})


CLUSTERS = Population(CLUSTER_DEPLOYMENT, "Deploy", _cluster)
ETCDS = Population(ETCD_CLUSTER, "DeployEtcd", _etcd)
