"""Faults of instances and launcher pods."""

from __future__ import annotations

from harness.embedded.faults import Faults, instances
from harness.kube.objects import condition
from tests.unit.embedded.faults.samples import pod, vmi


def test_an_agent_that_connects_brings_an_address_of_its_own() -> None:
    status = instances.reported_status(Faults(), vmi(agent=""))
    assert status is not None
    assert condition({"status": status}, "AgentConnected") is not None
    assert status["interfaces"][0]["ipAddress"] == "10.0.2.2"
    assert instances.reported_status(Faults(), {**vmi(agent=""), "status": status}) is None  # once


def test_a_move_changes_launcher_node_and_address_once() -> None:
    status = instances.reported_status(Faults(), vmi(moves=""))
    assert status is not None
    assert list(status["activePods"].values()) == ["elsewhere"]
    assert status["migrationState"]["completed"] is True
    assert instances.reported_status(Faults(), {**vmi(moves=""), "status": status}) is None


def test_the_scheduler_is_asked_for_what_no_node_has() -> None:
    asked = instances.with_requests(Faults(), pod(unschedulable=""))
    assert asked["spec"]["containers"][0]["resources"]["requests"]["devices.kubevirt.io/kvm"] == "2k"
    asked = instances.with_requests(Faults(), pod(unschedulable="{cpu_model: Cooperlake}"))
    assert asked["spec"]["nodeSelector"] == {"cpu-model.node.kubevirt.io/Cooperlake": "true"}


def test_an_image_that_cannot_be_pulled_looks_as_a_kubelet_writes_it() -> None:
    status = instances.not_started(Faults(), pod(image_pull=""))
    assert isinstance(status, dict)
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "launcher:1"'}
    assert status["phase"] == "Pending"
