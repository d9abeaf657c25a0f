"""Networks are written in the pool before a cluster has them, and given up when it is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.kube.client import ApiFailure
from harness.kube.objects import condition, owner_reference
from harness.kube.resources import EVENT
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_NETWORK_POOL
from harness.operator.context import OperatorContext
from harness.operator.controllers.networks import NetworksController
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.objects import defaulted, deployment, filled

Json = dict[str, Any]
POOL = {
    "pods": [{"cidr": "10.64.0.0/15", "prefix": 16}],
    "services": [{"cidr": "10.96.0.0/15", "prefix": 16}],
    "vxlan": {"vnis": {"first": 100, "last": 199}},
}


class World:
    """Clusters, a pool for two of them, and the controller of one manager."""

    def __init__(self, api: FakeCluster | None = None, namespace: str | None = None) -> None:
        self.api = api or FakeCluster()
        self.context = OperatorContext.of(self.api, Path("none"), namespace=namespace)
        self.controller = NetworksController(self.context)

    def pool(self) -> None:
        self.seen(
            CLUSTER_NETWORK_POOL, self.api.put(CLUSTER_NETWORK_POOL, {"metadata": {"name": "flat"}, "spec": POOL})
        )

    def seen(self, kind: Any, body: Json, what: str = "ADDED") -> None:
        self.context.informers.of(kind)._store(what, body)

    def add(self, name: str, uid: str = "", **network: Any) -> None:
        body = deployment(name=name, namespace="team", network={"pool": "flat", **network})
        body["spec"] = filled(defaulted(body))
        body["metadata"] |= {"uid": uid or f"uid-{name}", "generation": 1}
        made = self.api.put(CLUSTER_DEPLOYMENT, body)
        owner = owner_reference(made, CLUSTER_DEPLOYMENT)
        meta = {"name": name, "namespace": "team", "ownerReferences": [owner]}
        self.seen(CLUSTER_DEPLOYMENT, made)
        self.seen(CLUSTER, self.api.put(CLUSTER, {"metadata": meta, "status": {}}))

    def remove(self, name: str) -> None:
        for kind in (CLUSTER, CLUSTER_DEPLOYMENT):
            (body,) = (one for one in self.api.all(kind) if one["metadata"]["name"] == name)
            self.api.delete(kind, name, "team")
            self.seen(kind, body, "DELETED")

    def look(self, name: str) -> None:
        assert self.controller.reconcile(("team", name)) is None

    def networks(self, name: str) -> Json:
        (found,) = (one for one in self.api.all(CLUSTER) if one["metadata"]["name"] == name)
        return dict(found["status"].get("networks") or {})

    def entries(self) -> dict[str, str]:
        status = self.api.all(CLUSTER_NETWORK_POOL)[0].get("status") or {}
        return {one["cluster"]: one["pods"] for one in status.get("allocations") or ()}

    def available(self) -> tuple[str, str]:
        found = condition(self.api.all(CLUSTER_NETWORK_POOL)[0], "Available") or {}
        return found["status"], found["reason"]


def world(*names: str) -> World:
    made = World()
    made.pool()
    for name in names:
        made.add(name)
    return made


def test_each_cluster_gets_its_own_and_gives_it_up() -> None:
    one = world("a", "b")
    one.look("a")
    one.look("b")
    assert one.entries() == {"a": "10.64.0.0/16", "b": "10.65.0.0/16"}
    assert one.networks("b") == {
        "pool": "flat",
        "allocated": True,
        "reason": "Allocated",
        "message": "",
        "pods": "10.65.0.0/16",
        "services": "10.97.0.0/16",
        "vni": 101,
        "port": 8472,
    }
    assert one.available() == ("False", "Exhausted")
    one.remove("a")
    one.look("a")
    assert one.entries() == {"b": "10.65.0.0/16"}
    assert one.available() == ("True", "Available")
    assert [event["reason"] for event in one.api.all(EVENT)] == ["Allocated", "Allocated"]


def test_a_pool_that_is_exhausted_is_told_in_both_and_serves_who_waits_once_it_can() -> None:
    one = world("a", "b", "c")
    for name in ("a", "b", "c"):
        one.look(name)
    assert (one.networks("c")["allocated"], one.networks("c")["reason"]) == (False, "Exhausted")
    assert "ClusterNetworkPool flat has no pods left" in one.networks("c")["message"]
    one.remove("a")
    one.look("a")
    one.look("c")
    assert one.entries()["c"] == "10.64.0.0/16"
    assert one.networks("c")["allocated"] is True


def test_a_manager_that_was_killed_between_both_writes_finds_its_entry() -> None:
    one = world("a")
    one.api.refusals["PATCH clusters"] = ApiFailure(500, "InternalError", "no", [], request="PATCH")
    with pytest.raises(ApiFailure):
        one.look("a")
    assert one.networks("a") == {}
    del one.api.refusals["PATCH clusters"]
    one.add("b")
    one.look("b")
    one.look("a")
    assert one.entries() == {"a": "10.64.0.0/16", "b": "10.65.0.0/16"}
    assert one.networks("a")["pods"] == "10.64.0.0/16"


def test_of_two_managers_with_the_same_copy_one_is_refused() -> None:
    one = world("a", "b")
    other = World(one.api)
    for kind in (CLUSTER_NETWORK_POOL, CLUSTER_DEPLOYMENT, CLUSTER):
        for body in one.api.all(kind):
            other.seen(kind, body)
    one.look("a")
    with pytest.raises(ApiFailure, match="has been modified"):
        other.look("b")
    assert one.entries() == {"a": "10.64.0.0/16"}
    other.seen(CLUSTER_NETWORK_POOL, one.api.all(CLUSTER_NETWORK_POOL)[0], "MODIFIED")
    other.look("b")
    assert one.entries() == {"a": "10.64.0.0/16", "b": "10.65.0.0/16"}


def test_an_object_of_the_same_name_does_not_inherit() -> None:
    one = world("a", "b")
    one.look("a")
    one.look("b")
    one.remove("a")
    one.add("a", uid="another", pods="172.20.0.0/16")
    one.look("a")
    assert one.entries() == {"a": "172.20.0.0/16", "b": "10.65.0.0/16"}


def test_a_local_copy_that_is_behind_gives_nothing_up() -> None:
    one = world("a")
    one.look("a")
    other = World(one.api)
    other.seen(CLUSTER_NETWORK_POOL, one.api.all(CLUSTER_NETWORK_POOL)[0])
    other.look("a")
    assert one.entries() == {"a": "10.64.0.0/16"}


def test_a_pool_that_is_missing_is_waited_for() -> None:
    one = World()
    one.add("a")
    one.look("a")
    assert one.networks("a")["reason"] == "NoSuchPool"
    one.pool()
    assert one.controller.controller.queue.pending() > 0
    one.look("a")
    assert one.networks("a")["allocated"] is True


def test_a_manager_of_one_namespace_touches_no_entries_of_others() -> None:
    one = world("a")
    one.look("a")
    other = World(one.api, namespace="elsewhere")
    other.seen(CLUSTER_NETWORK_POOL, one.api.all(CLUSTER_NETWORK_POOL)[0])
    assert other.controller.controller.queue.pending() == 0
