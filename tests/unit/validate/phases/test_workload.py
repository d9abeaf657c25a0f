"""The workload is two pods that are evicted one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import ProductError
from harness.kube.resources import POD
from harness.until import Deadline
from harness.validate.phases import workload
from tests.unit.validate.fake_api import Api


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
