from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.kube.objects import condition as found_condition
from harness.operator.controllers.guest_nodes import GuestView
from harness.operator.controllers.machine_node import as_node, no_node
from tests.unit.operator.controllers.objects import CLAIM, condition, machine

Json = dict[str, Any]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = "2026-01-01T00:00:00Z"


def node(status: str, name: str = "m-0") -> Json:
    ready = {
        **condition("Ready", status, "KubeletReady", "kubelet is posting ready status"),
        "lastTransitionTime": SINCE,
    }
    info = {"kubeletVersion": "v1.36.3"}
    return {"metadata": {"name": name, "uid": "u"}, "status": {"conditions": [ready], "nodeInfo": info}}


def ready(status: Json) -> str:
    found = found_condition({"status": status}, "NodeReady")
    assert found is not None
    return str(found["status"])


@pytest.mark.parametrize(("said", "wanted"), [("True", "True"), ("False", "False"), ("Unknown", "False")])
def test_a_node_is_as_ready_as_its_cluster_says(said: str, wanted: str) -> None:
    status = as_node(machine(claim=CLAIM), GuestView({"m-0": node(said)}, None, ""), NOON)
    assert status["node"] == {"name": "m-0", "uid": "u", "version": "1.36.3", "ready": said, "since": SINCE}
    assert ready(status) == wanted


def test_a_node_has_the_hostname_of_its_machine() -> None:
    status = as_node(machine(claim=CLAIM, hostname="h"), GuestView({"h": node("True", "h")}, None, ""), NOON)
    assert status["node"]["name"] == "h"


def test_a_cluster_that_does_not_answer_says_nothing_of_its_nodes() -> None:
    known = machine("m-0", condition("NodeReady", "True", generation=None), claim=CLAIM)
    known["status"]["node"] = {"name": "m-0", "uid": "u", "version": "1.36.3", "ready": "True", "since": SINCE}
    status = as_node(known, GuestView(trouble="no route to host"), NOON)
    assert (ready(status), status["node"]["ready"], status["node"]["version"]) == ("Unknown", "Unknown", "1.36.3")
    assert "cluster one does not answer: no route to host" in status["conditions"][0]["message"]
    assert as_node(machine(claim=CLAIM), GuestView(trouble="x"), NOON)["node"] is None


def test_a_node_that_a_cluster_does_not_have_is_missing() -> None:
    status = as_node(machine(claim=CLAIM), GuestView({"m-1": node("True")}, None, ""), NOON)
    assert (ready(status), status["node"]) == ("False", None)


def test_a_machine_that_is_no_node_any_more_keeps_its_other_conditions() -> None:
    found = machine("m-0", condition("Reachable", "True"), condition("NodeReady", "True"))
    assert no_node(found) == {"node": None, "conditions": [condition("Reachable", "True")]}
