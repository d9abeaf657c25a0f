"""Statuses that a kubelet writes."""

from __future__ import annotations

import pytest

from harness.embedded.node import pods

BOUND = {
    "metadata": {"name": "p", "namespace": "a", "resourceVersion": "1"},
    "spec": {"containers": [{"name": "compute", "image": "i"}], "initContainers": [{"name": "log", "image": "i"}]},
    "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
}


def test_running_pod_has_an_address_of_each_family_and_is_ready() -> None:
    status = pods.running(BOUND, addresses=["10.213.1.2", "fd76:6d78:d5:1::2"], host_address="10.213.0.1")
    assert (status["phase"], status["podIP"], status["hostIP"]) == ("Running", "10.213.1.2", "10.213.0.1")
    assert status["podIPs"] == [{"ip": "10.213.1.2"}, {"ip": "fd76:6d78:d5:1::2"}]
    assert {c["type"]: c["status"] for c in status["conditions"]} == dict.fromkeys(
        ("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True"
    )
    assert all(c["ready"] for c in status["containerStatuses"] + status["initContainerStatuses"])


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_ended_pod_says_how(code: int, phase: str) -> None:
    status = pods.ended(BOUND, exit_code=code, reason="Error", message="why")
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"
