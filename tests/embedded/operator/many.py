"""Many declared clusters at once, with pools of their own: what a manager of a whole site has to look at."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import JOB
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE
from harness.until import NotYet
from tests.unit.operator.api.objects import deployment, machine, wanted_set

WRITERS = 8  # at a time


def declare_many(api: Cluster, namespace: str, clusters: range, machines: int) -> None:
    """Create ClusterDeployments, each with so many Machines of a pool of its own: one control plane, else workers."""
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(_declare, api, namespace, number, machines) for number in clusters]:
            done.result()


def _declare(api: Cluster, namespace: str, number: int, machines: int) -> None:
    pool = {"selector": {"matchLabels": {"pool": f"p-{number}"}}}
    for one in range(machines):
        address = f"10.{100 + number // 250}.{number % 250}.{one + 1}"
        body = machine(f"m-{number}-{one}", namespace, address=address)
        body["metadata"]["labels"] = {"pool": f"p-{number}"}
        api.create(MACHINE, body)
    sets = [wanted_set("cp", "control-plane", pool=pool), wanted_set("w", "worker", replicas=machines - 1, pool=pool)]
    api.create(CLUSTER_DEPLOYMENT, deployment(*sets, name=f"c-{number}", namespace=namespace))


def all_begun(api: Cluster, namespace: str, clusters: int) -> Callable[[], bool | NotYet]:
    """Return a probe: whether every cluster has its Job, and has said so."""

    def begun() -> bool | NotYet:
        jobs = len(api.list(JOB, namespace).items)
        found = [one for one in api.list(CLUSTER_DEPLOYMENT, namespace).items if _says_deploy(one)]
        return (jobs == clusters == len(found)) or NotYet(f"{jobs} Jobs, {len(found)} of {clusters} say so")

    return begun


def _says_deploy(deployment: dict[str, object]) -> bool:
    conditions = dig(deployment, "status", "conditions") or []
    return any(one["type"] == "Progressing" and one["reason"] == "Deploy" for one in conditions)
