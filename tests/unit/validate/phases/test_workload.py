"""The workload is two pods that are evicted one at a time; what the API has of machines is read as it says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.errors import ProductError
from harness.kube.client import Listing
from harness.kube.resources import CONFIG_MAP, CSI_NODE, CSR, DEPLOYMENT, ENDPOINT_SLICE, LEASE, NODE, POD, Resource
from harness.until import Deadline
from harness.validate.phases import data, leftovers, workload
from tests.unit.validate.phases.test_leftovers import CLEAN

Json = dict[str, Any]


class Api:
    """An API in which pods are ready at once, or never."""

    server = "https://10.222.1.2:6443"

    def __init__(self, *, ready: int = 2, lists: dict[Resource, list[Json]] | None = None) -> None:
        self.ready = ready
        self.lists = lists or {}
        self.made: dict[str, Json] = {}

    def ensure(self, resource: Resource, body: Json) -> Json:
        self.made[resource.kind] = body
        return {**body, "spec": {**body.get("spec", {}), "clusterIP": "10.95.1.2"}}

    create = ensure

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return {"status": {"readyReplicas": self.ready}} if resource is DEPLOYMENT else {"metadata": {"name": name}}

    def list(self, resource: Resource, namespace: str | None = None, **_: str) -> Listing:
        return Listing(self.lists.get(resource, []), "1")

    def events_of(self, namespace: str, name: str) -> Sequence[str]:
        return [f"Warning Failed: {name} has no image"]


def placed(nodes: tuple[str, ...], **given: Any) -> tuple[str, Api]:
    api: Any = Api(**given)
    return workload.place_workload(api, "mirror/agnhost:1", nodes, Deadline.after(0.2)), api


def test_two_pods_stand_behind_a_service_and_are_evicted_one_at_a_time() -> None:
    address, api = placed(("cp-0", "w-0"))
    assert address == "10.95.1.2"
    deployment, budget = api.made["Deployment"]["spec"], api.made["PodDisruptionBudget"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["replicas"] == 2
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert api.made["Service"]["spec"]["selector"] == deployment["selector"]["matchLabels"] == labels
    tolerated = [one["key"] for one in deployment["template"]["spec"]["tolerations"]]
    assert tolerated == ["node-role.kubernetes.io/control-plane"], "and not the taint of a node that is drained"


def test_on_a_single_node_nothing_keeps_it_from_being_drained() -> None:
    assert "PodDisruptionBudget" not in placed(("cp-0",))[1].made


def test_a_workload_that_does_not_run_is_the_products_fault_with_its_events() -> None:
    pods = {POD: [{"metadata": {"name": "it"}, "status": {}}]}
    with pytest.raises(ProductError, match="2 pods of vmatrix-life/keeps-answering to be ready: 1 ready") as failed:
        placed(("cp-0", "w-0"), ready=1, lists=pods)
    assert failed.value.detail == "it (None):\n  Warning Failed: it has no image"


def test_marks_are_read_as_they_were_written() -> None:
    api: Any = Api()
    data.leave_mark(api, "backup", "a1")
    api.lists = {CONFIG_MAP: [api.made["ConfigMap"], {"metadata": {"name": "kube-root-ca.crt"}}]}
    assert data.found_marks(api) == {"backup": "a1"}


def named(*names: str) -> list[Json]:
    return [{"metadata": {"name": name, "namespace": "kube-system"}, "spec": {}} for name in names]


def test_traces_of_machines_are_read_as_the_api_says_them() -> None:
    pod = named("coredns-1")[0] | {"spec": {"nodeName": "w-0"}}
    approved: Json = {"spec": {"username": "system:node:w-1"}, "status": {"conditions": [{"type": "Approved"}]}}
    lists: dict[Resource, list[Json]] = {
        NODE: named("cp-0", "w-0"),
        LEASE: named("cp-0", "w-0"),
        CSI_NODE: named("cp-0", "w-0"),
        POD: [pod],
        CSR: [approved],
        ENDPOINT_SLICE: [{"endpoints": [{"addresses": ["10.222.1.2"]}]}, {"endpoints": None}],
    }
    api: Any = Api(lists=lists)
    assert leftovers.traces_of(api) == CLEAN
    api.lists[CSR] = [{"spec": {"username": "system:node:w-1"}}]
    assert leftovers.traces_of(api).requests == {"system:node:w-1"}
