"""From Machines to clusters."""

from __future__ import annotations

from typing import Any, cast

from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.reconcile import Queue
from harness.operator.api.resources import MACHINE
from harness.operator.controllers.claimed import follow_claims

Json = dict[str, Any]


def machine(version: int, cluster: str = "") -> Json:
    spec = {"claim": {"cluster": cluster}} if cluster else {}
    return {"metadata": {"namespace": "n", "name": "m", "resourceVersion": str(version)}, "spec": spec}


def taken(queue: Queue) -> set[str]:
    found = set()
    while len(queue):
        key = queue.take()
        assert key is not None
        queue.done(key)
        found.add(key[1])
    return found


def test_change_is_about_the_cluster_that_has_it_and_the_one_that_had() -> None:
    machines, queue = Informer(cast(Cluster, None), MACHINE), Queue()
    follow_claims(machines, queue)
    machines._store("ADDED", machine(1))
    assert taken(queue) == set()
    machines._store("MODIFIED", machine(2, "a"))
    assert taken(queue) == {"a"}
    machines._store("MODIFIED", machine(3, "b"))
    assert taken(queue) == {"a", "b"}
    machines._store("MODIFIED", machine(4))
    assert taken(queue) == {"b"}
    machines._store("MODIFIED", machine(5, "c"))
    machines._store("DELETED", machine(6, "c"))
    assert taken(queue) == {"c"}
    machines._store("ADDED", machine(7))
    assert taken(queue) == set()
